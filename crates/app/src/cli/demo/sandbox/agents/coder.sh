# A coder without a model: its first fix is the one everybody writes, its second is right.
set -eu
. agents/ledger.sh
begin

if [ -z "${LOOP_BACK_FROM:-}" ]; then
    what='every fourth year is a leap year'
    cat >leap.sh <<'END'
#!/bin/sh
# Says whether a year is a leap year: yes or no.
if [ $(($1 % 4)) -eq 0 ]; then echo yes; else echo no; fi
END
else
    echo "sent back by $LOOP_BACK_FROM, see $LOOP_BACK_REPORT"
    think
    what='but of full centuries only every fourth'
    cat >leap.sh <<'END'
#!/bin/sh
# Says whether a year is a leap year: yes or no.
if [ $(($1 % 100)) -eq 0 ]; then every=400; else every=4; fi
if [ $(($1 % every)) -eq 0 ]; then echo yes; else echo no; fi
END
fi

git commit --quiet --message "$what" leap.sh
callboard report --status COMPLETED --log "$what" --artifact leap.sh
end
