# Writes down what the coder did, from the repository's own history.
set -eu
. agents/ledger.sh
begin

{
    printf '# Changes\n\n'
    git log --reverse --format='- %s' -- leap.sh | tail -n +2
} >CHANGES.md
git add CHANGES.md
git commit --quiet --message 'what changed'
callboard report --status COMPLETED --log 'wrote CHANGES.md' --artifact CHANGES.md
end
