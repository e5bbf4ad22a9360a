#!/bin/sh
# `gh` for one issue: its state is in $GH_STATE, its JSON and exit codes are those of the real program.
state=$GH_STATE
echo "$*" >>"$state/calls"
text() { awk 'BEGIN { ORS = "" } { gsub(/\\/, "\\\\"); gsub(/"/, "\\\""); print $0 "\\n" }' "$1"; }
[ -z "$CLICOLOR_FORCE$GH_FORCE_TTY" ] || printf '\033[1m'
case "$1 $2 $*" in
"issue view "*number,title*) cat "$state/issue.json" ;;
"issue view "*comments*)
  printf '{"comments":['
  separator=
  for file in "$state"/comment.*; do
    [ -f "$file" ] || continue
    printf '%s{"url":"https://github.com/o/r/issues/42#1","body":"%s"}' "$separator" "$(text "$file")"
    separator=,
  done
  printf ']}\n'
  ;;
"issue view "*state*) if [ -f "$state/closed" ]; then echo '{"state":"CLOSED"}'; else echo '{"state":"OPEN"}'; fi ;;
"issue comment "*)
  cat >"$state/comment.$(ls "$state" | grep -c '^comment')"
  echo https://github.com/o/r/issues/42#1
  ;;
"pr list "*)
  if [ -f "$state/pr" ]; then
    own_pr=",{\"url\":\"https://github.com/o/r/pull/7\",\"body\":\"$(text "$state/pr")\",\"isCrossRepository\":false}"
  else
    own_pr=
  fi
  # A pull request from a fork, which must not be taken for ours, is always listed.
  printf '[{"url":"https://github.com/fork/r/pull/6","body":"","isCrossRepository":true}%s]\n' "$own_pr"
  ;;
"pr create "*)
  if [ -f "$state/pr" ]; then
    echo 'a pull request for branch "agent/issue-42" already exists' >&2
    exit 1
  fi
  cat >"$state/pr"
  echo https://github.com/o/r/pull/7
  ;;
"pr edit "*) cat >"$state/pr" ;;
"issue close "*)
  echo closed >>"$state/closed"
  ;;
*)
  echo "unknown command \"$1\" for \"gh\"" >&2
  exit 1
  ;;
esac
