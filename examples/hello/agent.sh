#!/bin/sh
# The smallest useful agent: it reads its task from the environment, does a little work, and reports.
#
# An agent is told who it is (RUN_ID, STEP_ID, AGENT_ID), what to do (PROMPT_PATH), where (REPO_DIR), and where its
# results go (ARTIFACTS_DIR for files, REPORT_PATH for the report). The same is passed as flags, which this one ignores.
set -eu

for name in RUN_ID STEP_ID AGENT_ID PROMPT_PATH REPO_DIR ARTIFACTS_DIR REPORT_PATH; do
    eval "value=\${$name:-}"
    if [ -z "$value" ]; then
        echo "agent.sh: $name is not set; callboard starts this script, see workflow.yaml" >&2
        exit 2
    fi
done

now() { date -u +%Y-%m-%dT%H:%M:%SZ; }

say() { printf '%s: %s\n' "$STEP_ID" "$1"; }

# A text as a JSON string. What we quote are paths and sentences of our own: no control characters.
json() { printf '"%s"' "$(printf '%s' "$1" | sed 's/\\/\\\\/g; s/"/\\"/g')"; }

# The files of the repository, without what git, cargo and callboard keep there.
files() {
    find . \( -name .git -o -name .agents -o -name .callboard -o -name target \) -prune -o -type f "$@"
}

# Each of these functions writes its artifact to standard output, and its messages to standard error.
plan() {
    say "looking at $REPO_DIR" >&2
    printf '# Plan\n\n1. Which kinds of files are there?\n2. Which words matter to its authors?\n'
}

count_files() {
    printf '# Files\n\n'
    files -name '*.*' -print | sed 's/.*\.//' | sort | uniq -c | sort -rn | head -n 5 |
        while read -r count ending; do
            say "$count files end in .$ending" >&2
            printf -- '- %s × .%s\n' "$count" "$ending"
        done
}

count_words() {
    printf '# Words\n\n'
    files -name '*.md' -exec cat {} + | LC_ALL=C tr -cs 'A-Za-z' '\n' | LC_ALL=C tr 'A-Z' 'a-z' |
        awk 'length($0) >= 5' | sort | uniq -c | sort -rn | head -n 5 |
        while read -r count word; do
            say "\"$word\" is said $count times" >&2
            printf -- '- %s × %s\n' "$count" "$word"
        done
}

# Joins the artifacts of the steps `files` and `words`. The engine passes their paths in these variables.
summarise() {
    printf '# What we saw in %s\n\n' "$(basename "$REPO_DIR")"
    sed 's/^#/##/' "${DEP_FILES_ARTIFACT_0:-$ARTIFACTS_DIR/files.md}"
    printf '\n'
    sed 's/^#/##/' "${DEP_WORDS_ARTIFACT_0:-$ARTIFACTS_DIR/words.md}"
}

started_at=$(now)
artifact=$ARTIFACTS_DIR/$STEP_ID.md
cd "$REPO_DIR"
mkdir -p "$ARTIFACTS_DIR"
say "reading $(wc -l <"$PROMPT_PATH" | tr -d ' ') lines of prompt"

# A short pause, so that there is something to watch. The steps `files` and `words` pause at the same time.
sleep 0.4
case $STEP_ID in
plan) plan >"$artifact.new" ;;
files) count_files >"$artifact.new" ;;
words) count_words >"$artifact.new" ;;
summary) summarise >"$artifact.new" ;;
*)
    echo "agent.sh: does not know the step \"$STEP_ID\"" >&2
    exit 1
    ;;
esac
mv "$artifact.new" "$artifact"
say "wrote ${artifact#"$REPO_DIR"/}"

# The report is written last, and by rename: a reader sees all of it or nothing.
cat >"$REPORT_PATH.new" <<END
{
  "schema": "run_report@v0",
  "run_id": $(json "$RUN_ID"),
  "step_id": $(json "$STEP_ID"),
  "agent": $(json "$AGENT_ID"),
  "status": "COMPLETED",
  "started_at": "$started_at",
  "ended_at": "$(now)",
  "artifacts": [$(json "${artifact#"$REPO_DIR"/}")],
  "metrics": {"lines": $(wc -l <"$artifact" | tr -d ' ')},
  "logs": [$(json "wrote $(basename "$artifact") after looking at the repository")]
}
END
mv "$REPORT_PATH.new" "$REPORT_PATH"
