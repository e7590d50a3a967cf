"""What is known of one attempt so far: its marks, and the fault that it may become."""

from __future__ import annotations

from pytest_benchrig.core.generation import (
    FaultKind,
    Generation,
    Request,
    RuntimeFault,
    TimingMarks,
)
from pytest_benchrig.runtimes.clock import now_ns
from pytest_benchrig.runtimes.faults import ServerError, Site, fault_of_stream_error
from pytest_benchrig.runtimes.http import MAX_BODY_BYTES
from pytest_benchrig.runtimes.reply import Reply
from pytest_benchrig.runtimes.transport import Segment


class Progress:
    """Marks of one attempt; times are ns of the one clock.

    Attributes:
        site: Where, for faults.
        start_ns: Just before the first byte of the request was written.
        last_ns: Arrival of the latest bytes.
        total_ns: When the whole request is late.
        stall_ns: The longest silence after a token.
        token_ns: Arrival of the latest token.
        headers_ns: Arrival of the response head.
        taken: Bytes received.
    """

    def __init__(
        self,
        site: Site,
        request: Request,
        reply: Reply,
        *,
        connect_ns: int | None,
        waited_ns: int,
    ) -> None:
        self.site = site
        self.start_ns = 0
        self.last_ns = 0
        self.total_ns = 0
        self.stall_ns = int(request.stall_timeout_sec * 1e9)
        self.token_ns: int | None = None
        self.headers_ns: int | None = None
        self.taken = 0
        self._request = request
        self._reply = reply
        self._connect_ns = connect_ns
        self._waited_ns = waited_ns
        self._kernel = True
        self._coalesced = False

    def begin(self, start_ns: int) -> None:
        """The request was written."""
        self.start_ns = self.last_ns = start_ns
        self.total_ns = start_ns + int(self._request.timeout_sec * 1e9)

    def bytes(self, segment: Segment) -> None:
        """Bytes have arrived.

        Raises:
            RuntimeFault: More than any reply can have.
        """
        self.last_ns = segment.ns
        self._kernel = self._kernel and segment.kernel
        self.taken += len(segment.data)
        if self.taken > MAX_BODY_BYTES:
            raise self.fault(
                "broken_stream",
                f"the reply is larger than {MAX_BODY_BYTES:,} bytes",
                "Check that the address is the model server's",
            )

    def tokens(self, events: int) -> None:
        """Events with tokens were in the latest bytes."""
        self.token_ns = self.last_ns
        self._coalesced = self._coalesced or events > 1

    @property
    def deadline_ns(self) -> int:
        """When the request is late: as a whole, or after the latest token."""
        if self.token_ns is None:
            return self.total_ns
        return min(self.total_ns, self.token_ns + self.stall_ns)

    @property
    def phase(self) -> str:
        """``prefill`` until the first token, then ``stream``."""
        return "stream" if self._reply.arrivals else "prefill"

    def partial(self) -> Generation:
        """What has come back until now."""
        return self._reply.generation(
            TimingMarks(
                start_ns=self.start_ns,
                end_ns=max(self.last_ns, self.start_ns),
                arrivals=tuple(self._reply.arrivals),
                connect_ns=self._connect_ns,
                headers_ns=self.headers_ns,
                kernel_stamps=self._kernel and self.headers_ns is not None,
                coalesced=self._coalesced,
                retry_wait_ns=self._waited_ns,
                blank_tail=self._reply.blank_tail,
            )
        )

    def fault(
        self,
        kind: FaultKind,
        message: str,
        remedy: str,
        *,
        phase: str = "",
        status: int | None = None,
    ) -> RuntimeFault:
        """A fault of this attempt, with what had arrived."""
        return self.site.fault(
            kind,
            message,
            phase=phase or self.phase,
            remedy=remedy,
            status=status,
            partial=self.partial(),
        )

    def late(self) -> RuntimeFault:
        """A deadline has passed."""
        self.last_ns = max(self.last_ns, now_ns())
        request = self._request
        if self.token_ns is not None and self.last_ns < self.total_ns:
            return self.fault(
                "stall",
                f"no token for {request.stall_timeout_sec:g} s after the one before",
                "See the server's log, or raise --benchrig-stall-timeout",
            )
        return self.fault(
            "timeout",
            f"the request was not finished within {request.timeout_sec:g} s",
            "Raise --benchrig-request-timeout, or lower the scenario's num_predict",
        )

    def cut(self, message: str) -> RuntimeFault:
        """The reply ended before it was complete."""
        self.last_ns = max(self.last_ns, now_ns())
        return self.fault(
            "broken_stream",
            message,
            "See the server's log: it may have died; the reply was not judged",
        )

    def stream_error(self, error: ServerError) -> RuntimeFault:
        """The server reported an error inside the reply."""
        return fault_of_stream_error(self.site, error, phase=self.phase, partial=self.partial())
