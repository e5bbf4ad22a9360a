#!/bin/sh
# The scripted agent. The file `plan` beside it says how it behaves, one line each:
#
#     STEP ATTEMPT BEHAVIOUR [ARGUMENT]
#
# `*` matches every step or attempt. The first matching line is used; without one the agent works and reports. ATTEMPT
# is compared with STEP_ATTEMPT, which does not count interrupted attempts. The agent appends what really ran to `agent_log`.
shared=${0%/*}
behaviour=ok argument=
if [ -f "$shared/plan" ]; then
    while read -r step attempt what rest; do
        case $step in "$STEP_ID" | '*') ;; *) continue ;; esac
        case $attempt in "$STEP_ATTEMPT" | '*') ;; *) continue ;; esac
        behaviour=$what argument=$rest
        break
    done <"$shared/plan"
fi

log_event() { printf '%s\n' "$*" >>"$shared/agent_log"; }

# Blocks for ever: nothing is written to that pipe. No child is started, so a killed agent leaves no process behind.
hang() { while :; do read -r _ <"$shared/never"; done; }

# Leaves a process in a session of its own, as the tools of real agents do.
leave_grandchild() {
    setsid sh -c 'read -r _ <"$1"' grandchild "$shared/never" </dev/null >/dev/null 2>&1 &
    log_event grandchild "$CALLBOARD_ATTEMPT" $!
}

gate_failure=false

# The output that a phase of a peer cycle must report. Only there CALLBOARD_STATE_KEY is set.
extra_fields=
if [ -n "$CALLBOARD_STATE_KEY" ]; then
    case $STEP_ID in
    plan) extra_fields=', "output": {"phases": [{"phase": "all"}], "success_criteria": "it is done"}' ;;
    review) extra_fields=', "output": {"quality_score": 90, "recommendations": ["Go on like this"]}' ;;
    *) extra_fields=', "output": {"summary": "'$STEP_ID' is done"}' ;;
    esac
fi

# report_json STATUS SENTENCE
report_json() {
    printf '{
  "schema": "run_report@v0", "run_id": "%s", "step_id": "%s", "agent": "%s", "status": "%s",
  "started_at": "2026-01-02T03:04:05Z", "ended_at": "2026-01-02T03:04:06Z",
  "artifacts": ["made/%s.txt"], "metrics": {"lines": 3}, "logs": ["%s"], "gate_failure": %s%s
}\n' "$RUN_ID" "$STEP_ID" "$AGENT_ID" "$1" "$STEP_ID" "$2" "$gate_failure" "$extra_fields"
}

# The end is logged before the report exists, so that an accepted step always has an end in the log.
write_report() {
    report_json "$@" >"$REPORT_PATH.new"
    log_event end "$CALLBOARD_ATTEMPT"
    mv "$REPORT_PATH.new" "$REPORT_PATH"
}

log_event begin "$CALLBOARD_ATTEMPT" $$
echo "$STEP_ID at work"
case $behaviour in
ok) write_report COMPLETED "did $STEP_ID" ;;
exit)
    echo "$STEP_ID gives up" >&2
    log_event end "$CALLBOARD_ATTEMPT"
    exit "$argument"
    ;;
failed) write_report FAILED "$STEP_ID did not work out" ;;
gate-failure)
    # Fails the gate until the work has been repeated that often.
    [ "$STEP_ITERATION" -gt "$argument" ] || gate_failure=true
    write_report COMPLETED "$STEP_ID saw iteration $STEP_ITERATION"
    ;;
do)
    # A line of shell for a single test; it may use everything above.
    eval "$argument"
    ;;
hang) hang ;;
stubborn)
    trap '' TERM
    : >"$shared/ignores-term"
    hang
    ;;
report-then-hang)
    write_report COMPLETED "did $STEP_ID"
    hang
    ;;
work)
    # `work SECONDS [leaving]` sleeps in a child process, as real agents do, so that the torture can kill it while it runs.
    # `leaving` leaves a process behind.
    case $argument in *' leaving') leave_grandchild ;; esac
    sleep "${argument%% *}"
    write_report COMPLETED "did $STEP_ID"
    ;;
wait)
    read -r _ <"$shared/$argument"
    write_report COMPLETED "did $STEP_ID"
    ;;
wait-and-fail)
    read -r _ <"$shared/$argument"
    log_event end "$CALLBOARD_ATTEMPT"
    echo "$STEP_ID gives up" >&2
    exit 1
    ;;
garbage)
    log_event end "$CALLBOARD_ATTEMPT"
    printf '{ "schema": ' >"$REPORT_PATH"
    ;;
markers)
    log_event end "$CALLBOARD_ATTEMPT"
    echo '<<<RUN_REPORT_JSON'
    report_json COMPLETED "said $STEP_ID"
    echo 'RUN_REPORT_JSON>>>'
    ;;
contradict)
    # Hands in two reports that contradict each other.
    write_report COMPLETED "did $STEP_ID"
    printf '<<<RUN_REPORT_JSON\n%s\nRUN_REPORT_JSON>>>\n' "$(report_json FAILED "did it not")"
    ;;
submit)
    log_event end "$CALLBOARD_ATTEMPT"
    "$shared/callboard" report --status COMPLETED --log "submitted $STEP_ID" --metric 'weight=1 kg'
    ;;
save-input)
    # Writes all its input to files, for a test to read.
    for word in "$@"; do printf '%s\n' "$word"; done >"$shared/arguments"
    env >"$shared/environment"
    cp "$PROMPT_PATH" "$shared/prompt"
    pwd >"$shared/directory"
    write_report COMPLETED "did $STEP_ID"
    ;;
grandchild)
    leave_grandchild
    [ -z "$argument" ] || read -r _ <"$shared/$argument"
    write_report COMPLETED "did $STEP_ID"
    ;;
restless)
    # Leaves a process that calls exec all the time: during an exec it has no environment.
    setsid sh -c 'exec sh -c "$0" "$0"' 'exec sh -c "$0" "$0"' </dev/null >/dev/null 2>&1 &
    log_event grandchild "$CALLBOARD_ATTEMPT" $!
    read -r _ <"$shared/$argument"
    write_report COMPLETED "did $STEP_ID"
    ;;
*)
    echo "the plan says \"$behaviour\", which I cannot do" >&2
    exit 64
    ;;
esac
