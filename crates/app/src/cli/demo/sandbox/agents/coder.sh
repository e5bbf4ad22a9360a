# A scripted coder: its first fix is wrong, its second is right.
set -eu
. agents/log.sh
start

if [ -z "${LOOP_BACK_FROM:-}" ]; then
    what='every fourth year is a leap year'
    cat >leap.sh <<'END'
#!/bin/sh
# Prints whether a year is a leap year: yes or no.
if [ $(($1 % 4)) -eq 0 ]; then echo yes; else echo no; fi
END
else
    echo "loop-back from $LOOP_BACK_FROM, see $LOOP_BACK_REPORT"
    wait_for_demo
    what='a century is a leap year only every 400 years'
    cat >leap.sh <<'END'
#!/bin/sh
# Prints whether a year is a leap year: yes or no.
if [ $(($1 % 100)) -eq 0 ]; then every=400; else every=4; fi
if [ $(($1 % every)) -eq 0 ]; then echo yes; else echo no; fi
END
fi

git commit --quiet --message "$what" leap.sh
callboard report --status COMPLETED --log "$what" --artifact leap.sh
end
