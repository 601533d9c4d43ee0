"""What the clients in the field break on, whatever the specification says.

Each row was seen in the source, or in the running, of at least one of them: Emacs, VS Code,
IntelliJ, Neovim, Desktop, the CLI, and the page that three of these show.
"""

from __future__ import annotations

from functools import partial

from eca_protocol.testing.requirements.row import row

_breaks = partial(row, side="server", section="Clients in the field", level="observed")

ROWS = (
    _breaks("CLIENT-1", duty="`initialize` is answered with a welcome that is a text."),
    _breaks("CLIENT-2", duty="The first update has a model, a behaviour and an agent to select."),
    _breaks("CLIENT-3", duty="`behavior` and `agent` mean the same; `agent` wins."),
    _breaks("CLIENT-4", duty="The only header is Content-Length, spelt so, with one blank."),
    _breaks("CLIENT-5", duty="Who keeps nothing between two reads gets whole frames in each."),
    _breaks("CLIENT-6", duty="An answer has the key `result` or the key `error`, never both."),
    _breaks("CLIENT-7", duty="A notification has no key `id`."),
    _breaks("CLIENT-8", duty="The id 0 is one, and each comes back with its type."),
    _breaks("CLIENT-9", duty="No params, null, an object and an array without members are alike."),
    _breaks("CLIENT-10", duty="Keys that nobody knows, or that are spelt oddly, do no harm."),
    _breaks("CLIENT-11", duty="A prompt may name any chat, or none."),
    _breaks("CLIENT-12", duty="A prompt is answered with a result at once, whatever is wrong."),
    _breaks("CLIENT-13", duty="Every request is answered: some clients stand still meanwhile."),
    _breaks("CLIENT-14", duty="Every turn ends with one `finished`, however it ends."),
    _breaks("CLIENT-15", duty="A running progress says something."),
    _breaks("CLIENT-16", duty="A call is prepared, a thought is started, before anything of it."),
    _breaks("CLIENT-17", duty="The pieces of a call's arguments join to the whole."),
    _breaks("CLIENT-18", duty="The arguments of a call are an object."),
    _breaks("CLIENT-19", duty="Prices are texts, counts are integers, names are texts."),
    _breaks("CLIENT-20", duty="No message makes a client raise and lose those behind it."),
    _breaks("CLIENT-21", duty="A file change has path, diff, and the counts of its lines."),
    _breaks("CLIENT-22", duty="No tool but the list of tasks is called `task`."),
    _breaks("CLIENT-23", duty="What has not changed is left out of an update, never null."),
    _breaks("CLIENT-24", duty="`shutdown` is answered null once everything has ended."),
    _breaks("CLIENT-25", duty="`exit` ends us, whatever its params, before or after a signal."),
    _breaks("CLIENT-26", duty="An editor is asked only what it can; junk is a no."),
    _breaks("CLIENT-27", duty="A decision on a call that does not wait is ignored for good."),
    _breaks("CLIENT-28", duty="One file starts us, from any folder, and tells its version."),
    _breaks("CLIENT-29", duty="A task is started and finished after `initialized`."),
    _breaks("CLIENT-30", duty="Nothing but frames is written to the output."),
    _breaks("CLIENT-31", duty="The user's text comes back exactly, once, first, with an id."),
    _breaks("CLIENT-32", duty="After a delete nothing comes for the chat; Emacs gets `finished`."),
    _breaks("CLIENT-33", duty="Contents are those of chats that the user has opened."),
    _breaks("CLIENT-34", duty="Bodies are UTF-8 by bytes; odd ones of clients are read."),
)
