#!/bin/sh
# All agents of an `issue` run: each runs the file STEP.TURN or STEP in the directory `agents` beside this program. Without
# one it reports the success of its step.
snippets=$(dirname "$0")/agents
turn=${CALLBOARD_ATTEMPT#*#}
turn=${turn%.*}
head='"schema":"run_report@v0","run_id":"'$RUN_ID'","step_id":"'$STEP_ID'","agent":"'$AGENT_ID'","status":"COMPLETED","started_at":"then","ended_at":"now"'
# Reports the given fields.
say() { printf '{%s,%s}' "$head" "$1" >"$REPORT_PATH"; }
for file in "$snippets/$STEP_ID.$turn" "$snippets/$STEP_ID"; do
  if [ -f "$file" ]; then
    . "$file"
    exit
  fi
done
case $STEP_ID in
triage) say '"triage":{"scope":"SMALL","complexity":"simple","should_proceed":true}' ;;
analyst) say '"analysis":{"issue_type":"BUG_FIX","brief":"set the light to on","must_not_do":["secret/**"],"test_requirement":{"required":true,"location":"light.test"}}' ;;
writer)
  if [ -f light ]; then echo on >light; else echo dim >light; fi
  echo on >light.test
  say '"writer":{"summary":"The light is on.","test_written":true,"test_file":"light.test","changes":[{"file":"light","description":"on"}]}'
  ;;
reviewer) say '"review":{"verdict":"APPROVED","findings":{"good":["small"],"issues":[]}}' ;;
*.answer) say '"answer":"It is the file light."' ;;
esac
