# Sourced by the agents of the demo: each writes its start and its end to a log beside the repository.

start() { log start; }

end() { log end; }

log() {
    printf '%s %s %s\n' "$1" "$CALLBOARD_ATTEMPT" "$$" >>"$REPO_DIR/../agents.log"
    # `callboard demo` reads this pipe to learn of a new line. In a run without the demo there is no pipe.
    [ ! -p "$REPO_DIR/../wakeup" ] || echo >"$REPO_DIR/../wakeup"
    sleep "${PACE:-0}"
}

# Waits until the demo has killed the engine.
wait_for_demo() {
    [ ! -p "$REPO_DIR/../release" ] || read -r _ <"$REPO_DIR/../release"
}
