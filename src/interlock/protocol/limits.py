"""Limits that several packages share, with the unit in the name and the consequence in the docstring."""

KIB = 1024
MIB = 1024 * KIB

# --- approvals (section 3) ---
MAX_CARD_CHATS = 16
"""Chats of one service where a bridge reports an approval's card; a larger report is InvalidPayload (J-5)."""
MAX_CARDS = 64
"""Chats reported for one approval, by all bridges; a report beyond it is QuotaExceeded (J-5)."""

# --- frames and messages (L-2, E-5) ---
MAX_FRAME_BYTES = 768 * KIB
"""A frame above this, encoded, is refused by its sender with FRAME_TOO_LARGE and never enters an outbox (L-2)."""
MAX_ID_CHARS = 512
"""An id in a frame is at most this long: ids are kept in memory, in each stored state of a session, and in the frames
that answer (L-2)."""
MAX_FRAME_DEPTH = 128
"""A frame nested deeper is refused on both ends, and by its sender: what stores it nests it further, and a reader that
cannot read a stored row could not read any list with it (L-2)."""
MAX_AGENT_DEPTH = 100
"""A message of an agent nested deeper counts as unreadable: its input must fit a frame (A-8)."""
MAX_MESSAGE_BYTES = 1 * MIB
"""A WebSocket message above this closes the link (L-2)."""
MAX_BLOCK_BYTES = 256 * KIB
"""A text block is closed with `.done` at this encoded size and continues as a new block (E-5)."""
MAX_DELTA_BYTES = 64 * KIB
"""Text in one transient frame, as encoded JSON; longer text is split into neighbours (E-5)."""
MAX_TOOL_OUTPUT_BYTES = 256 * KIB
"""A tool's output is stored up to this, half from each end, the rest counted and hashed (E-5)."""
MAX_TOOL_INPUT_BYTES = 256 * KIB
"""A tool's input above this is denied if the agent asks, otherwise stored as digest, size and head (E-5)."""
TOOL_INPUT_HEAD_BYTES = 64 * KIB
"""The stored part of a tool input above MAX_TOOL_INPUT_BYTES (E-5)."""
MAX_IMPORT_BYTES = 1024 * MIB
"""A transcript that is imported as a file of its own (X-6)."""
MAX_REPAIRED_BYTES = 64 * MIB
"""Above it only an intact transcript is imported: a repair needs all of it in memory (X-4)."""
MAX_SUMMARY_CHARS = 400_000
"""A longer compaction summary is refused: it would have to be summarised itself (Z-4)."""
MAX_SUMMARY_BYTES = 512 * KIB
"""The same, as JSON: a frame carries it with the rest of its report (L-2)."""
MAX_PROMPT_BYTES = 256 * KIB
"""A prompt's content above this, as encoded JSON, is sent before it as file transfers (E-5)."""
MAX_CONTENT_PARTS = 256
"""Parts of a command's messages that are not all text; more is InvalidPayload."""
FILE_CHUNK_BYTES = 256 * KIB
"""Bytes of a file in one `agent.file.transfer`: as base64, a chunk with its names fits a frame with room to spare."""
MAX_FILE_BYTES = 16 * MIB
"""One file in either direction; a larger one is refused by its sender, with a message."""
HELD_UPLOADS_BYTES = 32 * MIB
"""Files that a runner holds for a session's future prompts; further ones are refused."""
MAX_OPEN_FILES = 16
"""Transfers under way in one session at once; a further one is refused."""
MAX_OPEN_TOOLS = 1_024
"""Tool calls without a result in one turn; one more is refused, since what is open is kept in memory and in each stored
state of the session (T-4)."""
MAX_OPEN_TOOL_BYTES = 16 * MIB
"""Total size of their inputs, names and titles; a call above it is refused."""
MAX_OPEN_INTERACTIONS = 256
"""Questions of one turn that wait for an answer; one more is refused. An agent has at most 64."""
MAX_OPEN_APPROVAL_BYTES = 32 * MIB
"""Total size of the requests of a session's open tool approvals; one above it is denied, since they are kept in memory
(P-1)."""
MAX_OBJECT_BYTES = 64 * MIB
"""One object of the object store; more is refused."""
OBJECT_READ_BYTES = 256 * KIB
"""An object is read in pieces of this."""
MAX_CHILD_LINE_BYTES = 16 * MIB
"""A line from a child above this fails the turn with FRAME_TOO_LARGE (A-8)."""
STDERR_TAIL_BYTES = 64 * KIB
"""The stored part of a child's standard error (A-8)."""

# --- link (L-4, L-5, D-1) ---
OPENING_TIMEOUT_MS = 10_000
"""Hello and welcome must both have arrived within this (L-4)."""
OPENING_SESSIONS = 250
"""For a runner with more sessions, the welcome may take longer: the gateway reads all of them first, and a runner that
gave up and reconnected would make the next gateway start again."""
OPENING_MS_A_SESSION = 40
"""Added to the timeout for each further session."""
PING_INTERVAL_S = 15
"""WebSocket ping (L-5)."""
PING_TIMEOUT_S = 30
"""A link that has not answered two pings is dead (L-5)."""
HEARTBEAT_INTERVAL_MS = 15_000
"""Interval at which the runner vouches for each live agent (L-5); viewers get one heartbeat event per interval
(S-2)."""
RECONNECT_MIN_MS = 250
RECONNECT_MAX_MS = 30_000
"""Reconnect: exponential between these, full jitter, without end (L-5)."""
RECONNECT_LOOPBACK_MAX_MS = 300
"""On loopback no other runner waits for the same gateway, so the ceiling is low and a person does not wait (decision
7)."""
ACK_FRAMES = 64
ACK_DELAY_MS = 50
"""An acknowledgement waits for at most this number of frames, or this time (D-1)."""
LARGEST_SEQ = 2**53
"""A larger number is refused: JSON readers round it, and a store cannot count on forever."""
LINK_JUMP = 2**20
"""Maximum step from the largest known link number of a runner to the next (decision 29): a claimed number cannot use up
those that are left, and no runner opens that many links between two that one gateway sees."""
RECENT_MESSAGE_IDS = 4_096
"""Message ids remembered per session to recognise a repeated frame under another seq; seq recognises the rest."""

# --- buffering (D-3) ---
OUTBOX_BYTES = 64 * MIB
"""Default RING buffer of one session's unacknowledged durable frames (D-3)."""
OBSERVER_ABSENT_MS = 24 * 60 * 60 * 1000
"""A gateway that only observes loses its position in the outbox after this absence (D-5)."""
FORGOTTEN_SENT = 256
"""The newest forgotten sessions that hello lists (D-5): a ledger that lacks more is detected by the audit log's
checkpoints."""
FORGOTTEN_SENT_MS = 7 * 24 * 60 * 60 * 1000
"""Hello lists them until this time after their last acknowledgement: a restored backup is rarely older."""
STOP_READING_SHARE = 0.75
"""The runner stops reading a process agent at this share of the buffer (D-3)."""

# --- agents (A-4, A-5) ---
TERMINATE_GRACE_MS = 5_000
"""SIGTERM to SIGKILL (A-4)."""
CANCEL_GRACE_MS = 5_000
"""Time for the agent's own cancel before the process is terminated (A-4)."""
HELD_TIMEOUT_MS = 60_000
"""No `x-interlock.interaction.held` within this on a live link: deny (section 4)."""
EXPIRY_SLACK_MS = 5_000
"""The runner denies by itself after this time beyond an interaction's expiry (A-5)."""
AGENT_IDLE_MS = 15 * 60 * 1000
"""An agent without a turn for this long is closed (section 4)."""

# --- commands (C-1, C-3, C-7) ---
TIMEOUT_DEFAULT_MS = 60 * 60 * 1000
APPROVAL_TTL_MS = 24 * 60 * 60 * 1000
APPROVAL_TTL_MAX_MS = 30 * 24 * 60 * 60 * 1000
QUEUE_TTL_MS = 24 * 60 * 60 * 1000
DETACH_TTL_MS = 24 * 60 * 60 * 1000
PAUSE_TTL_MS = 24 * 60 * 60 * 1000
CANCEL_FORCE_MS = 30_000
"""A cancel is forced after this (section 1, state machine)."""
MAX_QUEUED_COMMANDS = 1_000
"""Executes waiting in one session; a further one is answered 429 QuotaExceeded."""
MAX_DISPATCH_ATTEMPTS = 5
"""A command that is refused before its start this many times fails instead of being queued again (C-8)."""

# --- requests (section 1, M-1, F-1) ---
MAX_BODY_BYTES = 8 * MIB
MAX_INLINE_BINARY_BYTES = 512 * KIB
MAX_COMMAND_BINARY_BYTES = 4 * MIB
MAX_JSON_DEPTH = 64
IDEMPOTENCY_KEY_MIN = 8
IDEMPOTENCY_KEY_MAX = 255
IDEMPOTENCY_TTL_MS = 24 * 60 * 60 * 1000

# --- viewers (S-1, S-2, S-4) ---
PREVIEW_PARTS_MAX = 50
"""Diffs and texts of an agent's preview that an approval shows (J-12)."""
PREVIEW_CHARS_MAX = 200_000
"""Total size of all of them; a longer part is complete only in the bytes that a yes covers."""
PLAN_STEPS_MAX = 100
PLAN_STEP_CHARS = 500
SETTING_VALUES_MAX = 64
"""Modes, models or levels of thinking of an agent that are listed (J-14)."""
SETTING_ID_CHARS = 100
"""A value with a longer id is omitted: the id must be complete to select it."""
SETTING_TEXT_CHARS = 300
PAGE_DEFAULT = 100
PAGE_MAX = 500
USAGE_DAYS = 400
"""Days for which usage and the pots of budgets are stored: enough for the cost of a year (J-13)."""
USAGE_DAYS_DEFAULT = 30
USAGE_ITEMS_MAX = 5_000
"""Items of one response about usage; the number of further ones is returned."""
WAIT_MAX_S = 30
LAST_EVENTS_MAX = 1_000_000
"""How far before its end a stream can be begun with `last`."""
ACTIVE_MAX_MINUTES = 525_600
"""Maximum of `active` of a list: a year."""
CURSOR_MAX_CHARS = 512
"""A longer cursor is malformed."""
AUDIT_SIZE_MAX = 999_999_999
"""Records of an audit log that a proof may name."""
VIEWER_OUTBOX_BYTES = 1 * MIB
"""A viewer that is behind by more than this is closed, and must resume from its cursor (S-4)."""
PROGRESS_INTERVAL_MS = 1_000

# --- retention (G-5) ---
DAY_MS = 24 * 60 * 60 * 1000
RETENTION_DAYS = 30
"""Frames, events and files of a session are stored until this time after its last turn."""
PRUNE_MIN_MS = 60 * 60 * 1000
PRUNE_MAX_MS = 50 * 365 * 24 * 60 * 60 * 1000
"""There is nothing older to delete."""
"""Nothing younger is deleted, whatever is requested."""

# --- audit (U-3) ---
CHECKPOINT_INTERVAL_MS = 5_000
"""A checkpoint is at most this far behind the log …"""
CHECKPOINT_RECORDS = 256
"""… and is signed once this number of records is not covered."""
UNSIGNED_RECORDS_MAX = 1_024
"""Records after the last checkpoint at any instant; a further one waits until a checkpoint is signed."""
UNSIGNED_SPAN_MS_MAX = 120_000
"""Maximum difference of the times of those records: CHECKPOINT_INTERVAL_MS and a tolerance for gateways of one ledger
whose clocks differ."""

# --- single gateway ---
READY_TIMEOUT_S = 20
"""How long `up` waits for both processes to be ready."""
