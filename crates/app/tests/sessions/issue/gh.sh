#!/bin/sh
# `gh` for one issue: its state is in $GH_STATE, its JSON and exit codes are those of the real program. A point named in the
# file `crash` kills the engine there, once.
state=$GH_STATE
echo "$*" >>"$state/calls"
crash() { if [ "$(cat "$state/crash" 2>/dev/null)" = "$1" ]; then rm "$state/crash"; kill -9 $PPID; fi; }
text() { awk 'BEGIN { ORS = "" } { gsub(/\\/, "\\\\"); gsub(/"/, "\\\""); print $0 "\\n" }' "$1"; }
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
  crash before-comment
  cat >"$state/comment.$(ls "$state" | grep -c '^comment')"
  crash after-comment
  echo https://github.com/o/r/issues/42#1
  ;;
"pr list "*)
  if [ -f "$state/pr" ]; then
    echo '[{"url":"https://github.com/o/r/pull/7","body":"","headRefName":"agent/issue-42"}]'
  else
    echo '[]'
  fi
  ;;
"pr create "*)
  if [ -f "$state/pr" ]; then
    echo 'a pull request for branch "agent/issue-42" already exists' >&2
    exit 1
  fi
  crash before-pr
  cat >"$state/pr"
  crash after-pr
  echo https://github.com/o/r/pull/7
  ;;
"issue close "*)
  crash before-close
  echo closed >>"$state/closed"
  crash after-close
  ;;
*)
  echo "unknown command \"$1\" for \"gh\"" >&2
  exit 1
  ;;
esac
