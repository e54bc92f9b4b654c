"""All that decides who may ask, how often, and for what: joined once for REST and its composition."""

from __future__ import annotations

from typing import NamedTuple

from interlock.config import RatesSection
from interlock.engine.rows import Rows
from interlock.gateway.browsers import Browsers
from interlock.gateway.credentials import Credentials, Issuers
from interlock.gateway.keys import Keys
from interlock.gateway.open_streams import Openings
from interlock.gateway.quotas import Quotas
from interlock.gateway.rates import Rates
from interlock.gateway.tenants import Tenants
from interlock.gateway.tickets import Tickets
from interlock.ports.clock import Clock, Entropy
from interlock.ports.ledger import Ledger


class Access(NamedTuple):
    """What REST asks of section 6 of the specification."""

    credentials: Credentials
    keys: Keys
    tenants: Tenants
    tickets: Tickets
    rates: Rates
    quotas: Quotas
    openings: Openings
    browsers: Browsers

    def configure(self, issuers: Issuers | None, rates: RatesSection) -> None:
        """Take other issuers and other limits."""
        self.credentials.trust(issuers)
        self.rates.configure(rates)
        self.quotas.configure(rates)
        self.openings.configure(rates)


def make_access(ledger: Ledger, clock: Clock, entropy: Entropy, issuers: Issuers | None = None,
                rates: RatesSection | None = None, rows: Rows | None = None) -> Access:
    """Join the parts over one ledger; `rows` is the engine's own comparison of rows with the log."""
    credentials = Credentials(ledger, clock, issuers, rows)
    section = rates or RatesSection()
    pace = Rates(clock, section)
    return Access(
        credentials, Keys(ledger, clock, entropy, credentials), Tenants(ledger, clock, credentials),
        Tickets(clock, entropy), pace, Quotas(ledger, clock, section),
        Openings(credentials, section), Browsers(ledger, clock, entropy, credentials, pace),
    )
