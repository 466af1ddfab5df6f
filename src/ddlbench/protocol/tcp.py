"""What Linux' TCP does that times depend on."""

RTO_MIN_MS = 200.0  # its shortest retransmission time-out (TCP_RTO_MIN); time dilation stretches it, too
