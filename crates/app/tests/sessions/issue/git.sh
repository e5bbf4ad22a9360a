#!/bin/sh
# git, which kills the engine at the point that $GH_STATE/crash names, once.
crash() { if [ "$(cat "$GH_STATE/crash" 2>/dev/null)" = "$1" ]; then rm "$GH_STATE/crash"; kill -9 $PPID; fi; }
case " $* " in
*" commit "*) point=commit ;;
*" push "*) point=push ;;
*) point=none ;;
esac
crash before-$point
"$REAL_GIT" "$@"
code=$?
crash after-$point
exit $code
