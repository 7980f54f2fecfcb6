"""Captions of pictures and legends of tables, in reports and on pages."""

from __future__ import annotations

INSTANCE_ARRIVALS = (
    "A row is a rank; 0 is the median arrival of the other ranks. Hatched: the rank has arrived "
    "and waits. Accent: the time by which the awaited rank is late."
)
TYPICAL_INSTANCE = " The instance is a typical one of those in which the late rank comes last."
CAUSED_WAITS = (
    "A bar is a rank, or the sum of consecutive ranks. Above is the waiting of all ranks that its "
    "work causes, also through other ranks; below is its own waiting, on a scale of its own."
)
FINDINGS_TABLE = (
    "A bar is a rank, or the latest of consecutive ranks. Its height is the mean lateness, beyond "
    "that of the earliest rank; in messages, it is the waiting that the rank causes. "
    "Orange ranks are those that the others wait for."
)
CALLSITES_TABLE = (
    "Waiting is the mean of the ranks. ω is the time from the first to the last arrival, T that of "
    "one message. The rank that arrives last most often may have waited for the cause: the ranks "
    "that cause most of the waiting, and their share of it."
)
ARRIVAL_PATTERN = (
    "A row is a rank or the latest of consecutive ranks, a column an instance or the latest of "
    "consecutive instances. The colour tells how much later (orange, or grey without a late rank) "
    "or earlier (blue) than the median of the other ranks it arrives."
)
RANK_MATRIX = (
    "A row is a rank that waits or sends, a column is the rank that it waits for or sends to. The "
    "stronger the colour, the more. A dark column is one rank that many wait for."
)
CHANGES_CHART = (
    "Open dot: A, filled dot: B, with the 95 % interval of the mean if there are several runs. "
    "An arrow marks a change beyond chance: green is better. “Within chance” is no change."
)
LATENESS_STAGES = (
    "The lateness of the rank after each stage, from the exit of its previous collective to its "
    "arrival here, against the median of the other ranks. The width of an arrow is the lateness "
    "so far; the stage that adds most of it is framed."
)
COMPARE_LEGEND = (
    "ē: mean time in the call. wait: of all ranks in an instance, and ω: last minus first arrival; "
    "means over instances; Δ: change. *: differs by more than chance (95 %, over the whole table); "
    "(): too few instances to tell. saves: of the run time, without the cause."
)
EFFICIENCY_LEGEND = (
    "parallel = load balance × serialisation × transfer. Load balance: mean useful time of the "
    "ranks over the longest; serialisation: waiting that remains with an ideal network; transfer: "
    "time in MPI without waiting."
)
RANK_WAITS_LEGEND = (
    "wait: the time until the awaited rank arrived or posted its message. at: its begin, after the "
    "begin of the recording. tag: of the awaited message. back to: the ranks that waited in turn, "
    "and last the cause, which waited for no other rank. inside MPI: time of the cause in MPI "
    "calls during this wait."
)
RANK_TIMES_LEGEND = (
    "  collectives: with what makes communicators, collective calls on windows and files, and\n"
    "  MPI_Finalize; point-to-point: blocking calls; completion: Wait, Test and their like;\n"
    "  waiting in both: for messages; files: calls of one process alone"
)
SELECTOR_LEGEND = (
    "score: time in the call after the operation's semantics let a rank leave, mean over ranks; "
    "±: the median distance of single scores from their median; instances: in all phases so far."
)
ROBUST_SELECTOR_LEGEND = (
    "--switch robust (Faraj et al. 2008): score: mean time in the call over ten consecutive "
    "instances and all ranks, waits included; instances: probes."
)
ARRIVALS_PAGE = (
    "A row is a rank, a column an instance. The colour tells how much later (orange) or earlier "
    "(blue) than the median of the other ranks it arrives; the late rank has a row of its own. "
    "Above is the imbalance of each instance: the time ω from the first to the last arrival, in "
    "times T of one message. Phases are stretches of instances whose imbalance differs; every "
    "second one is grey. A click shows an instance at the right, dragging enlarges."
)
INSTANCE_PAGE = (
    "Above: how many instances have which imbalance; drag over bars to see only these. Below: the "
    "arrival of each rank of one instance, in the rows at the left, and a line while it waits. "
    "The dotted line is the median of the other ranks, the solid one the last arrival."
)
ALGORITHM_TIMES = (
    "A dot is the mean time in the call after the last arrival that the rank must wait for, under "
    "the recorded arrivals; the axis is logarithmic. The dashed line is the waiting now, which no "
    "algorithm removes: a dot far left of it means that the late rank matters, not the algorithm."
)
ALGORITHM_SIZES = (
    "A line is an algorithm with its best parameters: the mean time in the call after the last "
    "arrival, on more processes. Both axes are logarithmic. Lower is better; lines that cross show "
    "the size from which another algorithm is better."
)
ALGORITHM_CHOICES = (
    "A bar covers the instances that ran on an algorithm, from the first instance at the left. "
    "Short bars are probes; the longest bar is the algorithm that was chosen."
)
SCHEDULE_PAGE = (
    "A line from process to process is a message, from its start at the sender to its end at the "
    "receiver. Successive rounds differ in colour. Grey: the process, from its arrival to its end."
)
CALLSITES_GRID = (
    "Waits are sums over all ranks (overview: mean). Select a call site by click, or by arrow keys "
    "and space. Headings sort; their menus filter by text, or least value: 2ms, 64K, 10%."
)
MESSAGES_PAGE = (
    "A row is a rank that waits or sends, a column is the rank that it waits for or sends to. The "
    "darker a cell, the more. A dark column is one rank that many wait for; a dark line beside the "
    "diagonal is a chain of neighbours. A click on a cell lists its pairs of ranks."
)
AWAITED_WAITS = (
    "A bar is a rank, or the sum of consecutive ranks. Above is the waiting of other ranks for it, "
    "below its own waiting, on a scale of its own. A rank with both passes a delay on."
)
RUN_TIMES = (
    "A dot is the time of a run from MPI_Init to MPI_Finalize: A above, B below. B is green if "
    "it is faster beyond chance, and in the accent if it is slower; grey is no certain change."
)
TIMELINE_CELLS = (
    "A row is a rank, or the latest of a group of ranks. A column is a span of time in the colour "
    "of the collective that fills most of it, pale if the rank mostly waits there. Without a "
    "colour the rank is in no collective. Calls on messages are not drawn."
)
