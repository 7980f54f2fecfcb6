"""Message times of the papers' machines, for simulations.

Faraj et al. give times of two machines in Table 1: alpha is the time of the smallest message, and
beta the slope to the largest. Rabenseifner and Adamidis give times of the Cray X1: allreduce of a
double takes up to 137 us, which is 7 alpha on 128 processes with recursive doubling. Bandwidths of
allreduce and reduce of 8 MB on 64 processes (1362 and 1792 MB/s) determine beta and gamma, if a
byte one way costs half as much as both ways. With a larger factor, gamma would be negative. They
give no times of the Cray T3E, but its fastest protocols. A binary tree can be the fastest for short
messages only if messages one way cost half as much. The other times are assumed to be those usual
on such machines. A report states which of these applies.

Faraj et al. give no numbers of the transport. On Beowulf it is that of MPICH2's sock channel, which
sends up to 128,000 bytes eagerly, on Linux 2.6, whose sockets buffer 87,380 bytes. On Lemieux
the four processes of a node share the network interface (Section 6), which matches messages without
the processor, so that a receiver's arrival delays no sender. Unexpected messages are copied at an
assumed 1 ns per byte. Of alpha, 0.85 on Lemieux and 0.7 on Beowulf are assumed to pass in the
network, where a message occupies no port. Otherwise the root of a flat tree would need the time of
a ping-pong for each short message. For the same reason a byte occupies a port at the rate of the
network: 117.6 MB/s of data in Gigabit Ethernet, and 340 MB/s in Quadrics Elan3, of which a node of
Lemieux had two (the manufacturer's description). Bytes are assumed to take up to twice as long
where many processes send to one port at once, as the paper's statements on Figure 7 require.
"""

from __future__ import annotations

from dataclasses import replace

from mpiprof.collectives.machine import DEFAULT, Machine

PER_BYTE = Machine(0.0, 1.0, 0.0, 0.0, 1.0)  # no start-ups, so that times are bytes
MEASURED = "fitted to Table 1 of Faraj et al. 2008"
WITH_TRANSPORT = f"times {MEASURED}, transport assumed in part"
FITTED_X1 = "fitted to latencies and to bandwidths on 64 processes in Section 5"
ASSUMED = "assumed, because the paper gives no message times"

CONTENTION = 1.0
LEMIEUX_RAILS = 2  # networks of a node
# ns: 8 us for 4 B and 575 us for 128 KB; 56 us and 1571 us.
LEMIEUX = Machine(
    *(8_000.0, 4.326, 1.0, 8_000.0, 4.326),
    node_port=True,
    eager_limit=128 << 10,
    window=128 << 10,
    copy=1.0,
    latency_share=0.85,
    port_beta=2.94 / LEMIEUX_RAILS,
    contention=CONTENTION,
)
BEOWULF = Machine(
    *(56_000.0, 11.559, 1.0, 56_000.0, 11.559),
    eager_limit=128_000,
    window=87_380,
    copy=1.0,
    latency_share=0.7,
    buffered=True,
    port_beta=8.5,
    contention=CONTENTION,
)
# The same network with 4 processes per node, and messages within nodes through memory.
GIGABIT = Machine(56_000.0, 11.559, 1.0, 1_500.0, 0.5)
NEC_SX8 = Machine(6_000.0, 0.08, 0.05, 3_000.0, 0.05)
INFINIBAND = Machine(5_000.0, 1.1, 0.5, 1_000.0, 0.5)
SICORTEX = Machine(2_000.0, 1.0, 1.0, 2_000.0, 1.0)
BLUE_GENE_P = Machine(3_000.0, 2.35, 1.0, 3_000.0, 2.35)
CRAY_T3E = Machine(14_000.0, 3.3, 3.0, 14_000.0, 3.3, one_way_alpha=0.5, one_way_beta=0.5)
IBM_SP = Machine(20_000.0, 2.9, 1.0, 8_000.0, 1.0)
CRAY_X1 = Machine(19_600.0, 0.358, 0.0015, 19_600.0, 0.358, one_way_beta=0.5)
MYRINET = Machine(10_000.0, 7.0, 2.0, 3_000.0, 2.0)
SLOWER = 4
SLOW_LINKS = replace(DEFAULT, beta=SLOWER * DEFAULT.beta)
