"""A heap as workers have it: it takes the best free block, joins free neighbours, and gives nothing back to the kernel.

`launch.bare.workers_environment` makes glibc's heap like that. So the most that a process takes depends on the order in
which it asks for memory, and holes count.
"""

from bisect import bisect, insort
from dataclasses import dataclass


@dataclass
class Block:
    """A piece of the heap, from its first byte, and how many hold it."""

    begin: int
    size: int
    holders: int = 1

    @property
    def end(self) -> int:
        return self.begin + self.size


class Heap:
    """The blocks of a process.

    Attributes:
        top: the end of the last block.
        highest: the highest that `top` has been; so many bytes the process takes.
    """

    def __init__(self) -> None:
        self.top = self.highest = 0
        self._holes: list[tuple[int, int]] = []  # begin, end; sorted, none beside another or the top

    def new(self, size: float) -> Block:
        """Allocate a block in the smallest hole that has room for it, or else at the top.

        Args:
            size: in bytes.

        Returns:
            The block, held once.
        """
        wanted = int(size)
        rooms = [
            (end - begin, place) for place, (begin, end) in enumerate(self._holes) if end - begin >= wanted
        ]
        if not rooms:
            block = Block(self.top, wanted)
            self.top += wanted
            self.highest = max(self.highest, self.top)
            return block
        _, place = min(rooms)
        begin, end = self._holes.pop(place)
        if end - begin > wanted:
            insort(self._holes, (begin + wanted, end))
        return Block(begin, wanted)

    def keep(self, block: Block) -> Block:
        """Hold a block once more.

        Args:
            block: of this heap.

        Returns:
            The block.
        """
        block.holders += 1
        return block

    def drop(self, *blocks: Block) -> None:
        """Hold blocks once less; those that nobody holds are free.

        Args:
            *blocks: of this heap.
        """
        for block in blocks:
            block.holders -= 1
            if block.holders == 0 and block.size:
                self._free(block.begin, block.end)

    def _free(self, begin: int, end: int) -> None:
        place = bisect(self._holes, (begin, end))
        if place < len(self._holes) and self._holes[place][0] == end:
            end = self._holes.pop(place)[1]
        if place and self._holes[place - 1][1] == begin:
            begin = self._holes.pop(place - 1)[0]
        if end == self.top:
            self.top = begin
        else:
            insort(self._holes, (begin, end))
