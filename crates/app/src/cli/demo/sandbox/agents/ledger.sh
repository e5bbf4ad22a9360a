# Sourced by the agents: what they note beside the repository, so that anybody can count what really ran.

begin() { note begin; }

end() { note end; }

note() {
    printf '%s %s %s\n' "$1" "$CALLBOARD_ATTEMPT" "$$" >>"$REPO_DIR/../ledger"
    # Whoever tells the story listens here. Where nobody does, there is no bell.
    [ ! -p "$REPO_DIR/../bell" ] || echo >"$REPO_DIR/../bell"
    sleep "${PACE:-0}"
}

# Works on until the storyteller says that it has been long enough: so the engine is always killed in the middle.
think() {
    [ ! -p "$REPO_DIR/../idea" ] || read -r _ <"$REPO_DIR/../idea"
}
