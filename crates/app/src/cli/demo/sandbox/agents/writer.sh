# Describes the coder's changes, from the git history.
set -eu
# Defines `start` and `end`, which write to the log of the demo.
. agents/log.sh
start

{
    printf '# Changes\n\n'
    # The first commit is not the coder's: it made the repository.
    git log --reverse --format='- %s' -- leap.sh | tail -n +2
} >CHANGES.md
git add CHANGES.md
git commit --quiet --message 'describe the changes'
callboard report --status COMPLETED --log 'wrote CHANGES.md' --artifact CHANGES.md
end
