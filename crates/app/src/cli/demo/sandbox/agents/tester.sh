# A gate: runs the test, and says in its report whether it passed.
set -eu
. agents/ledger.sh
begin

if said=$(sh test.sh); then failed=false; else failed=true; fi
echo "${said:=all years are right}"

now=$(date -u +%Y-%m-%dT%H:%M:%SZ)
callboard report <<END
{
  "schema": "run_report@v0",
  "run_id": "$RUN_ID", "step_id": "$STEP_ID", "agent": "$AGENT_ID",
  "status": "COMPLETED", "gate_failure": $failed,
  "started_at": "$now", "ended_at": "$now",
  "logs": ["$(printf '%s' "$said" | tr '\n' ';')"]
}
END
end
