from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from eca_server.agent.tools.read_only_commands import why_not_read_only

READING = [
    "ls", "ls -la src", "pwd", "cat a b", "cat 'my file'", "head -n 5 a | tail -2", "echo hi",
    "grep -rn 'a\\|b$' . --include='*.py'", 'grep "x" a', "rg -n --pretty foo src",
    "find . -name '*.py' -type f", "find src -newer a ! -name b | wc -l", "ls *.py", "wc -l *.py",
    "git status", "git --no-pager log --oneline -5", "git diff HEAD~1 -- a.py", "git show HEAD",
    "git branch", "git branch -a", "git branch --list 'x*'", "git branch --show-current",
    "git remote -v", "git tag --list", "git ls-files | grep py", "git blame a.py",
    "git diff --stat 2>&1 | head", "ls 2>/dev/null", "ls > /dev/null 2>&1", "ls &>/dev/null",
    "cd src && ls", "ls; pwd\ncat a || true", "ls |\nwc -l", "stat a", "file -b a", "tree -L 2 src",
    "du -sh .", "df -h", "sed -n 10,20p a", "sed -n '5,$p' a b", "sort -u a | uniq -c",
    "sort -k1,2 -t, a", "cut -d: -f1 a", "echo a >&2", "ls ~", "ls 'a;b' \"c|d\"",
]  # fmt: skip

NOT_READING = [
    "", "  ", ";", "rm -rf x", "ls; rm x", "ls && rm x", "ls || rm x", "ls | xargs rm", "ls\nrm x",
    "rm x | ls", "ls > x", "ls >> x", "echo x >/dev/nul", "echo x > /dev/sda", "ls >| x", "ls &> x",
    "echo x >&file", "cat <> x", "cat < x", "cat <<E\nE", "ls 2>err", "echo x >'/dev/null'/../y",
    "ls $(rm x)", "ls `rm x`", 'ls "$(rm x)"', 'ls "`rm x`"', "ls ${x:=y}", "ls $X", "ls $'a'",
    "ls <(rm x)", "(ls)", "{ ls; }", "ls & rm x", "ls &", "! ls", "if ls; then ls; fi",
    "PATH=. ls", "X=1", "./ls", "/bin/ls", "$SHELL", "l*", "~/x", "ls() { rm x; }", "eval ls",
    "bash -c ls", "env ls", "sudo ls", "xargs ls", "tee x", "dd if=a of=b", "cp a b", "mv a b",
    "touch x", "mkdir x", "ln -s a b", "chmod +x a", "curl http://x", "python -c 1", "npm install",
    "find . -delete", "find . -exec rm {} ';'", "find . -execdir rm", "find . -ok rm",
    "find . -fprint x", "find . -fprintf x y", "find . -fls x", "find *", "find . {-delete,}",
    "find . '-'delete", "find . \\-delete", "find . -d* ", "find . ''*",
    "rg --pre=./x a", "rg --pre ./x a", "rg --hostname-bin=x a", "rg -z a", "rg *",
    "tree -o x", "tree -ao x", "tree --output=x", "tree -R -L 1 -H .", "file -C", "file -Cm x",
    "sort -o x a", "sort -uo x a", "sort --output=x a", "sort --out x a", "uniq a b", "sort *",
    "sort --compress-program=./x a",
    "sed -i s/a/b/ x", "sed -n 'w x' a", "sed -n 1p -i a", "sed -n -i 1p a", "sed -n '1e rm' a",
    "sed 's/a/b/w x' a", "sed -n '1p;w x' a", "sed -n", "awk 1", "sed -n '1p\nw x' a",
    "git", "git commit -m x", "git push", "git add .", "git checkout .", "git reset --hard",
    "git st", "git -c core.pager=x log", "git -C x status", "git --exec-path=. status",
    "git -p log", "git --git-dir=x log", "git diff --output=x", "git diff --outp=x",
    "git log --o x",
    "git diff --ext-diff", "git log --textconv", "git grep -Ox a", "git branch x",
    "git branch -d x",
    "git branch -D x", "git branch -m x", "git branch -v x", "git branch -l x", "git tag v1",
    "git tag -d v1", "git remote add a b", "git stash", "git stash drop", "git config a b",
    "cd x && git status", "git diff *", "git show --show-signature", "git branch --list -D x",
    "ls # x", "ls # it's\nrm -rf x #'", "ls \\\n; rm x", "ls\r\nrm x", "'ls", 'ls "', "ls \0",
    "ls |& rm x", "ls;;", "ls <<< x", "time ls", "coproc ls", "exec ls", "echo a > /dev/null > b",
    "l\\\ns; r\\\nm x",
]  # fmt: skip


REASONS = {"ls; rm x": "rm", "ls > x": ">", "ls $(rm x)": "$(", "'ls": "quote", "git gc": "git"}


def test_a_command_that_only_reads_is_known_as_such():
    assert {each: why for each in READING if (why := why_not_read_only(each))} == {}


def test_a_command_that_may_write_is_refused_with_the_reason():
    reasons = {each: why_not_read_only(each) for each in (*NOT_READING, *REASONS)}
    assert [command for command, why in reasons.items() if not why] == []
    assert all(word in (reasons[command] or "") for command, word in REASONS.items())


joins = st.sampled_from([";", "&&", "||", "|", "|&", "\n", " ; ", " && ", "\n\n"])
pieces = st.sampled_from([*READING, "ls 'rm x'", 'echo "; rm x"', "grep -e '>' a"])
writing = st.sampled_from(
    ["rm x", "tee x", "ls > x", "find . -delete", "git commit", "$(rm x)", "`rm x`", "x=1 ls", "sh"]
)


@given(st.lists(pieces, min_size=1, max_size=4), st.data())
def test_what_only_reads_stays_so_when_joined(commands, data):
    text = commands[0]
    for command in commands[1:]:
        text += data.draw(joins) + command
    assume(not ("cd " in text and "git " in text))
    assert why_not_read_only(text) is None


@given(st.lists(pieces, max_size=3), st.lists(pieces, max_size=3), writing, st.data())
def test_one_writing_command_in_any_place_is_found(before, after, bad, data):
    text = ""
    for command in before:
        text += command + data.draw(joins)
    text += bad
    for command in after:
        text += data.draw(joins) + command
    assert why_not_read_only(text)
