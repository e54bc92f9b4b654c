"""Keys, tenants, tickets, browser sessions and push subscriptions."""

from __future__ import annotations

from interlock.protocol.access import (
    BrowserCode,
    BrowserCodeBody,
    BrowserSession,
    BrowserSessionBody,
    EmptyBody,
    Key,
    KeyBody,
    MadeKey,
    OpenedBrowserSession,
    PushSubscription,
    PushSubscriptionBody,
    StreamTicket,
    Tenant,
    TenantBody,
    TicketBody,
    Whoami,
)
from interlock.protocol.answers import (
    Arrived,
    BrowserSessionList,
    KeyList,
    LoginIssuerList,
    PushSubscriptionList,
    SigningKeyList,
    TenantList,
)
from interlock.protocol.api.operation import ADMINS, APPROVERS, EVERYBODY, NO_ROLES, OWNERS, READERS, Operation
from interlock.protocol.bodies import RevokeKeyBody
from interlock.protocol.resources import SigningKey, SigningKeyBody

LIST_SIGNING_KEYS = Operation(
    "listSigningKeys", "GET", "/signing-keys", "",
    roles=READERS, answers=SigningKeyList)
CREATE_SIGNING_KEY = Operation(
    "createSigningKey", "POST", "/signing-keys",
    "The key, registered for the one who asks.",
    roles=APPROVERS, body=SigningKeyBody, answers=SigningKey, status=201, codes=("Conflict", "QuotaExceeded"))
REVOKE_SIGNING_KEY = Operation(
    "revokeSigningKey", "POST", "/signing-keys/{key_id}/revoke",
    "Votes that it signs are refused from now on; its owner, or an admin.",
    roles=APPROVERS, body=RevokeKeyBody, body_optional=True, answers=SigningKey)
WHOAMI = Operation(
    "whoami", "GET", "/whoami", "",
    roles=EVERYBODY, answers=Whoami)
LIST_LOGIN_ISSUERS = Operation(
    "listLoginIssuers", "GET", "/login-issuers",
    "Where a person without a credential can get one.",
    roles=NO_ROLES, answers=LoginIssuerList, public=True)
LIST_KEYS = Operation(
    "listKeys", "GET", "/keys",
    "Of one's own tenant; an owner may name another.",
    roles=ADMINS, query=("tenant",), answers=KeyList, codes=("NotFound",))
MAKE_KEY = Operation(
    "makeKey", "POST", "/keys",
    "The key, shown once.",
    roles=ADMINS, body=KeyBody, answers=MadeKey, status=201, secret=True,
    codes=("Conflict", "NotFound", "QuotaExceeded"))
ROTATE_KEY = Operation(
    "rotateKey", "POST", "/keys/{key_id}/rotate",
    "The new secret, shown once.",
    roles=ADMINS, body=EmptyBody, body_optional=True, answers=MadeKey, secret=True, codes=("Conflict",))
REVOKE_KEY = Operation(
    "revokeKey", "POST", "/keys/{key_id}/revoke",
    "The key.",
    roles=ADMINS, body=EmptyBody, body_optional=True, answers=Key, codes=("Conflict",))
LIST_TENANTS = Operation(
    "listTenants", "GET", "/tenants", "",
    roles=OWNERS, answers=TenantList)
MAKE_TENANT = Operation(
    "makeTenant", "POST", "/tenants",
    "The tenant.",
    roles=OWNERS, body=TenantBody, answers=Tenant, status=201, codes=("Conflict", "QuotaExceeded"))
SUSPEND_TENANT = Operation(
    "suspendTenant", "POST", "/tenants/{tenant_id}/suspend",
    "The tenant.",
    roles=OWNERS, body=EmptyBody, body_optional=True, answers=Tenant, codes=("Conflict",))
RESTORE_TENANT = Operation(
    "restoreTenant", "POST", "/tenants/{tenant_id}/restore",
    "The tenant.",
    roles=OWNERS, body=EmptyBody, body_optional=True, answers=Tenant, codes=("Conflict",))
GIVE_TICKET = Operation(
    "giveTicket", "POST", "/stream-tickets",
    "A ticket for one path, good once and for 30 seconds.",
    roles=READERS, body=TicketBody, answers=StreamTicket, status=201, secret=True, codes=("QuotaExceeded",))
MAKE_BROWSER_CODE = Operation(
    "makeBrowserCode", "POST", "/browser-codes",
    "A code that opens a browser session once, within 5 minutes; shown once.",
    roles=READERS, body=BrowserCodeBody, body_optional=True, answers=BrowserCode, status=201, secret=True,
    codes=("QuotaExceeded", "UnsupportedCapability"))
OPEN_BROWSER_SESSION = Operation(
    "openBrowserSession", "POST", "/browser-sessions",
    "One half of the login, and the other as a cookie. The code or key is the credential. Every later request "
    "carries both, the cookie and the header `Interlock-Browser`.",
    roles=NO_ROLES, body=BrowserSessionBody, answers=OpenedBrowserSession, status=201, public=True,
    codes=("QuotaExceeded",))
LIST_BROWSER_SESSIONS = Operation(
    "listBrowserSessions", "GET", "/browser-sessions",
    "One's own; those of the tenant for an admin.",
    roles=READERS, answers=BrowserSessionList)
END_BROWSER_SESSION = Operation(
    "endBrowserSession", "DELETE", "/browser-sessions/{browser_session_id}",
    "The session that has ended; `me` is the one that asks.",
    roles=READERS, body=EmptyBody, body_optional=True, answers=BrowserSession)
LIST_PUSH_SUBSCRIPTIONS = Operation(
    "listPushSubscriptions", "GET", "/push-subscriptions",
    "One's own; those of the tenant for an admin.",
    roles=READERS, answers=PushSubscriptionList)
SUBSCRIBE_TO_PUSH = Operation(
    "subscribeToPush", "POST", "/push-subscriptions",
    "And the browser of this session is notified of each approval that waits. It ends with the session.",
    roles=APPROVERS, body=PushSubscriptionBody, answers=PushSubscription, status=201,
    codes=("QuotaExceeded", "Conflict"))
TEST_PUSH_SUBSCRIPTION = Operation(
    "testPushSubscription", "POST", "/push-subscriptions/{push_subscription_id}/test",
    "200 once the push service took a notice that names no approval, else UpstreamError.",
    roles=APPROVERS, body=EmptyBody, body_optional=True, answers=Arrived, codes=("Conflict",))
END_PUSH_SUBSCRIPTION = Operation(
    "endPushSubscription", "DELETE", "/push-subscriptions/{push_subscription_id}",
    "The subscription that has ended.",
    roles=READERS, body=EmptyBody, body_optional=True, answers=PushSubscription)
