"""Access control: who may send requests, at which rate, and which ones; assembled once for REST and its composition."""

from __future__ import annotations

from typing import NamedTuple

from interlock.config import RatesSection
from interlock.engine.lanes.rows import RowAudit
from interlock.gateway.access.browsers import BrowserSessions
from interlock.gateway.access.credentials import Credentials, Issuers
from interlock.gateway.access.keys import KeyStore
from interlock.gateway.access.open_streams import Openings
from interlock.gateway.access.push import PushService
from interlock.gateway.access.quotas import Quotas
from interlock.gateway.access.rates import Rates
from interlock.gateway.access.tenants import TenantStore
from interlock.gateway.access.tickets import Tickets
from interlock.ports.clock import Clock, Entropy
from interlock.ports.ledger import Ledger


class Access(NamedTuple):
    """The parts that REST uses for section 6 of the specification."""

    credentials: Credentials
    keys: KeyStore
    tenants: TenantStore
    tickets: Tickets
    rates: Rates
    quotas: Quotas
    openings: Openings
    browsers: BrowserSessions
    push: PushService

    def configure(self, issuers: Issuers | None, rates: RatesSection) -> None:
        """Apply other issuers and limits."""
        self.credentials.trust(issuers)
        self.rates.configure(rates)
        self.quotas.configure(rates)
        self.openings.configure(rates)


def make_access(ledger: Ledger, clock: Clock, entropy: Entropy, issuers: Issuers | None = None,
                rates: RatesSection | None = None, rows: RowAudit | None = None, *, shared: bool = False,
                deadline_clock: Clock | None = None) -> Access:
    """Assemble the parts over one ledger; `rows` is the engine's own comparison of rows with the log. `shared` means
    that other gateways work on the ledger. `deadline_clock` is the clock of the commands'
    times, if `clock` is not."""
    credentials = Credentials(ledger, clock, issuers, rows)
    section = rates or RatesSection()
    pace = Rates(clock, section)
    return Access(
        credentials, KeyStore(ledger, clock, entropy, credentials), TenantStore(ledger, clock, credentials),
        Tickets(clock, entropy), pace, Quotas(ledger, deadline_clock or clock, section, shared=shared),
        Openings(credentials, section), BrowserSessions(ledger, clock, entropy, credentials, pace),
        PushService(ledger, clock, entropy, credentials),
    )
