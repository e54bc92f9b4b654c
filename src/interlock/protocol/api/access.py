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
from interlock.protocol.resources import PasskeyBody, SigningKey, SigningKeyBody

LIST_SIGNING_KEYS = Operation(
    "listSigningKeys", "GET", "/signing-keys", "",
    roles=READERS, answers=SigningKeyList,
    verb="signing-keys list")
CREATE_SIGNING_KEY = Operation(
    "createSigningKey", "POST", "/signing-keys",
    "The key, registered for the one who asks.",
    roles=APPROVERS, body=SigningKeyBody, answers=SigningKey, status=201, codes=("Conflict", "QuotaExceeded"),
    verb="signing-keys create")
REGISTER_PASSKEY = Operation(
    "registerPasskey", "POST", "/passkeys",
    "The passkey, registered for the one who asks as a key for votes, which `listSigningKeys` lists and "
    "`revokeSigningKey` ends. It is bound to the origin of the page that asks (J-17).",
    roles=APPROVERS, body=PasskeyBody, answers=SigningKey, status=201, codes=("Conflict", "QuotaExceeded"),
    no_verb="a browser makes passkeys, for a page")
REVOKE_SIGNING_KEY = Operation(
    "revokeSigningKey", "POST", "/signing-keys/{key_id}/revoke",
    "Votes that it signs are refused from now on; its owner, or an admin.",
    roles=APPROVERS, body=RevokeKeyBody, body_optional=True, answers=SigningKey,
    verb="signing-keys revoke")
WHOAMI = Operation(
    "whoami", "GET", "/whoami", "",
    roles=EVERYBODY, answers=Whoami,
    verb="whoami")
LIST_LOGIN_ISSUERS = Operation(
    "listLoginIssuers", "GET", "/login-issuers",
    "Where a person without a credential can get one.",
    roles=NO_ROLES, answers=LoginIssuerList, public=True,
    verb="login")
LIST_KEYS = Operation(
    "listKeys", "GET", "/keys",
    "Those of the tenant for an admin, and an owner may name another; for everybody else their own, and those of the "
    "agents that they drive.",
    roles=READERS, query=("tenant",), answers=KeyList, codes=("NotFound",),
    verb="keys list")
MAKE_KEY = Operation(
    "makeKey", "POST", "/keys",
    "The key, shown once.",
    roles=ADMINS, body=KeyBody, answers=MadeKey, status=201, secret=True,
    codes=("Conflict", "NotFound", "QuotaExceeded"),
    verb="keys create")
ROTATE_KEY = Operation(
    "rotateKey", "POST", "/keys/{key_id}/rotate",
    "The new secret, shown once.",
    roles=ADMINS, body=EmptyBody, body_optional=True, answers=MadeKey, secret=True, codes=("Conflict",),
    verb="keys rotate")
REVOKE_KEY = Operation(
    "revokeKey", "POST", "/keys/{key_id}/revoke",
    "The key, which is refused from now on: any of the tenant for an admin; for everybody else their own, or one of an "
    "agent that they drive.",
    roles=READERS, body=EmptyBody, body_optional=True, answers=Key, codes=("Conflict",),
    verb="keys revoke")
LIST_TENANTS = Operation(
    "listTenants", "GET", "/tenants", "",
    roles=OWNERS, answers=TenantList,
    verb="tenants list")
MAKE_TENANT = Operation(
    "makeTenant", "POST", "/tenants",
    "The tenant.",
    roles=OWNERS, body=TenantBody, answers=Tenant, status=201, codes=("Conflict", "QuotaExceeded"),
    verb="tenants create")
SUSPEND_TENANT = Operation(
    "suspendTenant", "POST", "/tenants/{tenant_id}/suspend",
    "The tenant.",
    roles=OWNERS, body=EmptyBody, body_optional=True, answers=Tenant, codes=("Conflict",),
    verb="tenants suspend")
RESTORE_TENANT = Operation(
    "restoreTenant", "POST", "/tenants/{tenant_id}/restore",
    "The tenant.",
    roles=OWNERS, body=EmptyBody, body_optional=True, answers=Tenant, codes=("Conflict",),
    verb="tenants restore")
GIVE_TICKET = Operation(
    "giveTicket", "POST", "/stream-tickets",
    "A ticket for one path, good once and for 30 seconds.",
    roles=READERS, body=TicketBody, answers=StreamTicket, status=201, secret=True, codes=("QuotaExceeded",),
    no_verb="a ticket is for a page, which cannot send a header")
MAKE_BROWSER_CODE = Operation(
    "makeBrowserCode", "POST", "/browser-codes",
    "A code that opens a browser session once, within 5 minutes; shown once.",
    roles=READERS, body=BrowserCodeBody, body_optional=True, answers=BrowserCode, status=201, secret=True,
    codes=("QuotaExceeded", "UnsupportedCapability"),
    verb="console")
OPEN_BROWSER_SESSION = Operation(
    "openBrowserSession", "POST", "/browser-sessions",
    "One half of the login, and the other as a cookie. The code or key is the credential. Every later request "
    "carries both, the cookie and the header `Interlock-Browser`.",
    roles=NO_ROLES, body=BrowserSessionBody, answers=OpenedBrowserSession, status=201, public=True,
    codes=("QuotaExceeded",),
    no_verb="a browser logs itself in", no_method="a browser keeps its cookie; a program sends its key")
LIST_BROWSER_SESSIONS = Operation(
    "listBrowserSessions", "GET", "/browser-sessions",
    "One's own; those of the tenant for an admin.",
    roles=READERS, answers=BrowserSessionList,
    verb="console sessions")
END_BROWSER_SESSION = Operation(
    "endBrowserSession", "DELETE", "/browser-sessions/{browser_session_id}",
    "The session that has ended; `me` is the one that asks.",
    roles=READERS, body=EmptyBody, body_optional=True, answers=BrowserSession,
    verb="console end")
LIST_PUSH_SUBSCRIPTIONS = Operation(
    "listPushSubscriptions", "GET", "/push-subscriptions",
    "One's own; those of the tenant for an admin.",
    roles=READERS, answers=PushSubscriptionList,
    no_verb="a browser subscribes, from the console")
SUBSCRIBE_TO_PUSH = Operation(
    "subscribeToPush", "POST", "/push-subscriptions",
    "And the browser of this session is notified of each approval that waits. It ends with the session.",
    roles=APPROVERS, body=PushSubscriptionBody, answers=PushSubscription, status=201,
    codes=("QuotaExceeded", "Conflict"),
    no_verb="a browser subscribes, from the console")
TEST_PUSH_SUBSCRIPTION = Operation(
    "testPushSubscription", "POST", "/push-subscriptions/{push_subscription_id}/test",
    "200 once the push service took a notice that names no approval, else UpstreamError.",
    roles=APPROVERS, body=EmptyBody, body_optional=True, answers=Arrived, codes=("Conflict",),
    no_verb="a browser subscribes, from the console")
END_PUSH_SUBSCRIPTION = Operation(
    "endPushSubscription", "DELETE", "/push-subscriptions/{push_subscription_id}",
    "The subscription that has ended.",
    roles=READERS, body=EmptyBody, body_optional=True, answers=PushSubscription,
    no_verb="a browser subscribes, from the console")
