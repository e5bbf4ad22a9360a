#!/bin/sh
# The scripted agent. What it does in a step's try stands in the file `plan` beside it, one line each:
#
#     STEP TRY BEHAVIOUR [ARGUMENT]
#
# `*` fits every step or try, the first line that fits holds, without one it does its work and reports. TRY counts as
# STEP_ATTEMPT does: interrupted attempts are not new ones. What really ran is noted in `ledger`, one appended line each.
kit=${0%/*}
behaviour=ok argument=
if [ -f "$kit/plan" ]; then
    while read -r step try what rest; do
        case $step in "$STEP_ID" | '*') ;; *) continue ;; esac
        case $try in "$STEP_ATTEMPT" | '*') ;; *) continue ;; esac
        behaviour=$what argument=$rest
        break
    done <"$kit/plan"
fi

note() { printf '%s\n' "$*" >>"$kit/ledger"; }

# Blocks for good: nobody ever writes there. No child is started, so that a killed agent leaves nothing behind.
hang() { while :; do read -r _ <"$kit/never"; done; }

# Leaves a process in a session of its own, as the tools of real agents do.
leave() {
    setsid sh -c 'read -r _ <"$1"' grandchild "$kit/never" </dev/null >/dev/null 2>&1 &
    note grandchild "$CALLBOARD_ATTEMPT" $!
}

gate_failure=false

# What a phase of a cycle must produce besides; steps produce nothing of the kind.
more=
if [ -n "$CALLBOARD_STATE_KEY" ]; then
    case $STEP_ID in
    plan) more=', "output": {"phases": [{"phase": "all"}], "success_criteria": "it is done"}' ;;
    review) more=', "output": {"quality_score": 90, "recommendations": ["Go on like this"]}' ;;
    *) more=', "output": {"summary": "'$STEP_ID' is done"}' ;;
    esac
fi

# report STATUS SENTENCE [STEP]
report() {
    printf '{
  "schema": "run_report@v0", "run_id": "%s", "step_id": "%s", "agent": "%s", "status": "%s",
  "started_at": "2026-01-02T03:04:05Z", "ended_at": "2026-01-02T03:04:06Z",
  "artifacts": ["made/%s.txt"], "metrics": {"lines": 3}, "logs": ["%s"], "gate_failure": %s%s
}\n' "$RUN_ID" "${3:-$STEP_ID}" "$AGENT_ID" "$1" "$STEP_ID" "$2" "$gate_failure" "$more"
}

# The end is noted before the report is there: a step that was accepted has always an end.
hand_in() {
    report "$@" >"$REPORT_PATH.new"
    note end "$CALLBOARD_ATTEMPT"
    mv "$REPORT_PATH.new" "$REPORT_PATH"
}

note begin "$CALLBOARD_ATTEMPT" $$
echo "$STEP_ID at work"
case $behaviour in
ok) hand_in COMPLETED "did $STEP_ID" ;;
exit)
    echo "$STEP_ID gives up" >&2
    note end "$CALLBOARD_ATTEMPT"
    exit "$argument"
    ;;
failed) hand_in FAILED "$STEP_ID did not work out" ;;
gate-failure)
    # Sends the work back until it has been done again that often.
    [ "$STEP_ITERATION" -ge "$argument" ] || gate_failure=true
    hand_in COMPLETED "$STEP_ID saw iteration $STEP_ITERATION"
    ;;
do)
    # A line of shell, for what only one test needs; it may use everything above.
    eval "$argument"
    ;;
hang) hang ;;
stubborn)
    trap '' TERM
    hang
    ;;
report-then-hang)
    hand_in COMPLETED "did $STEP_ID"
    hang
    ;;
work)
    # Takes its time, in a child of its own, as real agents do; for the torture, which wants to hit it at work.
    case $argument in *' leaving') leave ;; esac
    sleep "${argument%% *}"
    hand_in COMPLETED "did $STEP_ID"
    ;;
wait)
    read -r _ <"$kit/$argument"
    hand_in COMPLETED "did $STEP_ID"
    ;;
wait-and-fail)
    read -r _ <"$kit/$argument"
    note end "$CALLBOARD_ATTEMPT"
    echo "$STEP_ID gives up" >&2
    exit 1
    ;;
garbage)
    note end "$CALLBOARD_ATTEMPT"
    printf '{ "schema": ' >"$REPORT_PATH"
    ;;
wrong-id) hand_in COMPLETED "did $STEP_ID" somebody-else ;;
left-over) hand_in COMPLETED '<one sentence about what you did>' ;;
markers)
    note end "$CALLBOARD_ATTEMPT"
    echo '<<<RUN_REPORT_JSON'
    report COMPLETED "said $STEP_ID"
    echo 'RUN_REPORT_JSON>>>'
    ;;
contradict)
    hand_in COMPLETED "did $STEP_ID"
    printf '<<<RUN_REPORT_JSON\n%s\nRUN_REPORT_JSON>>>\n' "$(report FAILED "did it not")"
    ;;
submit)
    note end "$CALLBOARD_ATTEMPT"
    "$kit/callboard" report --status COMPLETED --log "submitted $STEP_ID" --metric 'weight=1 kg'
    ;;
tell)
    # Everything it was told, for a test to read.
    for word in "$@"; do printf '%s\n' "$word"; done >"$kit/arguments"
    env >"$kit/environment"
    cp "$PROMPT_PATH" "$kit/prompt"
    pwd >"$kit/directory"
    hand_in COMPLETED "did $STEP_ID"
    ;;
grandchild)
    leave
    [ -z "$argument" ] || read -r _ <"$kit/$argument"
    hand_in COMPLETED "did $STEP_ID"
    ;;
restless)
    # Leaves a process that changes its program all the time: in the middle of that it has no environment.
    setsid sh -c 'exec sh -c "$0" "$0"' 'exec sh -c "$0" "$0"' </dev/null >/dev/null 2>&1 &
    note grandchild "$CALLBOARD_ATTEMPT" $!
    read -r _ <"$kit/$argument"
    hand_in COMPLETED "did $STEP_ID"
    ;;
*)
    echo "the plan says \"$behaviour\", which I cannot do" >&2
    exit 64
    ;;
esac
