#!/bin/sh
# Checks four years. Prints what is wrong, and exits with 1 if anything is.
cd "$(dirname "$0")" || exit 2
wrong=0

expect() {
    got=$(sh leap.sh "$1")
    [ "$got" = "$2" ] && return
    echo "$1: expected $2, got $got"
    wrong=1
}

expect 2023 no
expect 2024 yes
expect 1900 no
expect 2000 yes
exit "$wrong"
