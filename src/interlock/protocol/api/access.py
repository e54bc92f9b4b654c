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
    "listSigningKeys", "GET", "/signing-keys",
    "List every key for votes that was ever registered.",
    roles=READERS, answers=SigningKeyList,
    verb="signing-keys list")
CREATE_SIGNING_KEY = Operation(
    "createSigningKey", "POST", "/signing-keys",
    "Register a signing key for votes of the caller.",
    roles=APPROVERS, body=SigningKeyBody, answers=SigningKey, status=201, codes=("Conflict", "QuotaExceeded"),
    verb="signing-keys create")
REGISTER_PASSKEY = Operation(
    "registerPasskey", "POST", "/passkeys",
    "Register a passkey for votes of the caller. `listSigningKeys` lists it and `revokeSigningKey` revokes it. It is "
    "bound to the origin of the calling page (J-17).",
    roles=APPROVERS, body=PasskeyBody, answers=SigningKey, status=201, codes=("Conflict", "QuotaExceeded"),
    no_verb="a browser makes passkeys, for a page")
REVOKE_SIGNING_KEY = Operation(
    "revokeSigningKey", "POST", "/signing-keys/{key_id}/revoke",
    "Revoke a key for votes: later votes that it signs are refused. For its owner, or an admin.",
    roles=APPROVERS, body=RevokeKeyBody, body_optional=True, answers=SigningKey,
    verb="signing-keys revoke")
WHOAMI = Operation(
    "whoami", "GET", "/whoami",
    "Return the actor of this request's credential.",
    roles=EVERYBODY, answers=Whoami,
    verb="whoami")
LIST_LOGIN_ISSUERS = Operation(
    "listLoginIssuers", "GET", "/login-issuers",
    "List the issuers where a person without a credential can log in.",
    roles=NO_ROLES, answers=LoginIssuerList, public=True,
    verb="login")
LIST_KEYS = Operation(
    "listKeys", "GET", "/keys",
    "List API keys: for an admin those of the tenant, and an owner may name another tenant; for everybody else their "
    "own keys and those of the agents that they drive.",
    roles=READERS, query=("tenant",), answers=KeyList, codes=("NotFound",),
    verb="keys list")
MAKE_KEY = Operation(
    "makeKey", "POST", "/keys",
    "Create an API key; its secret is shown once.",
    roles=ADMINS, body=KeyBody, answers=MadeKey, status=201, secret=True,
    codes=("Conflict", "NotFound", "QuotaExceeded"),
    verb="keys create")
ROTATE_KEY = Operation(
    "rotateKey", "POST", "/keys/{key_id}/rotate",
    "Replace an API key's secret; the new one is shown once.",
    roles=ADMINS, body=EmptyBody, body_optional=True, answers=MadeKey, secret=True, codes=("Conflict",),
    verb="keys rotate")
REVOKE_KEY = Operation(
    "revokeKey", "POST", "/keys/{key_id}/revoke",
    "Revoke an API key permanently. An admin may revoke any key of the tenant, everybody else their own keys and "
    "those of the agents that they drive.",
    roles=READERS, body=EmptyBody, body_optional=True, answers=Key, codes=("Conflict",),
    verb="keys revoke")
LIST_TENANTS = Operation(
    "listTenants", "GET", "/tenants",
    "List the tenants.",
    roles=OWNERS, answers=TenantList,
    verb="tenants list")
MAKE_TENANT = Operation(
    "makeTenant", "POST", "/tenants",
    "Create a tenant.",
    roles=OWNERS, body=TenantBody, answers=Tenant, status=201, codes=("Conflict", "QuotaExceeded"),
    verb="tenants create")
SUSPEND_TENANT = Operation(
    "suspendTenant", "POST", "/tenants/{tenant_id}/suspend",
    "Suspend a tenant: its keys are refused until it is restored.",
    roles=OWNERS, body=EmptyBody, body_optional=True, answers=Tenant, codes=("Conflict",),
    verb="tenants suspend")
RESTORE_TENANT = Operation(
    "restoreTenant", "POST", "/tenants/{tenant_id}/restore",
    "End a tenant's suspension.",
    roles=OWNERS, body=EmptyBody, body_optional=True, answers=Tenant, codes=("Conflict",),
    verb="tenants restore")
GIVE_TICKET = Operation(
    "giveTicket", "POST", "/stream-tickets",
    "Create a ticket that opens one path, once, within 30 seconds.",
    roles=READERS, body=TicketBody, answers=StreamTicket, status=201, secret=True, codes=("QuotaExceeded",),
    no_verb="a ticket is for a page, which cannot send a header")
MAKE_BROWSER_CODE = Operation(
    "makeBrowserCode", "POST", "/browser-codes",
    "Create a code that opens a browser session, once, within 5 minutes; it is shown once.",
    roles=READERS, body=BrowserCodeBody, body_optional=True, answers=BrowserCode, status=201, secret=True,
    codes=("QuotaExceeded", "UnsupportedCapability"),
    verb="console")
OPEN_BROWSER_SESSION = Operation(
    "openBrowserSession", "POST", "/browser-sessions",
    "Open a browser session with a code or an API key. The response has one half of the credential, its cookie the "
    "other; later requests send both, as the header `Interlock-Browser` and the cookie.",
    roles=NO_ROLES, body=BrowserSessionBody, answers=OpenedBrowserSession, status=201, public=True,
    codes=("QuotaExceeded",),
    no_verb="a browser logs itself in", no_method="a browser keeps its cookie; a program sends its key")
LIST_BROWSER_SESSIONS = Operation(
    "listBrowserSessions", "GET", "/browser-sessions",
    "List the caller's open browser sessions; for an admin all of the tenant.",
    roles=READERS, answers=BrowserSessionList,
    verb="console sessions")
END_BROWSER_SESSION = Operation(
    "endBrowserSession", "DELETE", "/browser-sessions/{browser_session_id}",
    "End a browser session; `me` is the caller's.",
    roles=READERS, body=EmptyBody, body_optional=True, answers=BrowserSession,
    verb="console end")
LIST_PUSH_SUBSCRIPTIONS = Operation(
    "listPushSubscriptions", "GET", "/push-subscriptions",
    "List the caller's push subscriptions; for an admin all of the tenant.",
    roles=READERS, answers=PushSubscriptionList,
    no_verb="a browser subscribes, from the console")
SUBSCRIBE_TO_PUSH = Operation(
    "subscribeToPush", "POST", "/push-subscriptions",
    "Notify the browser of this browser session of each pending approval. The subscription ends with the session.",
    roles=APPROVERS, body=PushSubscriptionBody, answers=PushSubscription, status=201,
    codes=("QuotaExceeded", "Conflict"),
    no_verb="a browser subscribes, from the console")
TEST_PUSH_SUBSCRIPTION = Operation(
    "testPushSubscription", "POST", "/push-subscriptions/{push_subscription_id}/test",
    "Send a test notification that names no approval. UpstreamError if the push service does not accept it.",
    roles=APPROVERS, body=EmptyBody, body_optional=True, answers=Arrived, codes=("Conflict",),
    no_verb="a browser subscribes, from the console")
END_PUSH_SUBSCRIPTION = Operation(
    "endPushSubscription", "DELETE", "/push-subscriptions/{push_subscription_id}",
    "End a push subscription.",
    roles=READERS, body=EmptyBody, body_optional=True, answers=PushSubscription,
    no_verb="a browser subscribes, from the console")
