"""Approvals, shown in chats and decided there: a vote is sent with the key of the person who pressed the button (P-3,
P-8, O-12)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import structlog

from interlock.channels.chat.messages import Press, counted, decided, not_counted, read_press, refused
from interlock.channels.chat.places import AskedQuestion, Places
from interlock.channels.chat.question import Question, question, short_question, why_elsewhere
from interlock.channels.chat.workers import ChatWorkers
from interlock.channels.notice import link_to
from interlock.command.approval import named
from interlock.command.card.asked_by import names
from interlock.command.card.permission_request import (
    not_of_its_digest,
    redacted,
    request_of_approval,
    title_of_approval,
)
from interlock.command.card.text import one_line
from interlock.ports.chat_service import BotRejected, ButtonPress, ChatMessage, ChatRefused, ChatService, Id, Spot
from interlock.protocol.limits import MAX_CARD_CHATS, PAGE_MAX
from interlock.protocol.resources import Approval, FeedEvent, Remembering, RuleMatch
from interlock.sdk import AsyncInterlock
from interlock.sdk.follower import StreamEvent
from interlock.sdk.problems import CursorExpired, Forbidden, InterlockError, NotFound, Refused, for_people

AGAIN_S = 5.0
THREAD_CHARS = 500
CHAT_NAME_CHARS = 128
"""Maximum length of a chat's name at the gateway."""
MAX_CARDS_WAITING = 500
"""Approvals whose card waits for one chat; the card of a further one is not sent to that chat, and is logged."""
SHOWN_WITHIN_S = 5.0
"""Time that a press waits for the reply to its card, if that is being sent."""
DESCRIBED = Remembering(scope="session", match=RuleMatch(width="described"))
"""Allows every described call of this kind, in its session."""

Redact = Callable[[str], str]
log = structlog.get_logger("interlock.chat")


class Approvals:
    """Follows the tenant's feed. `people` has a client with each person's own key, by the service's ids; `asking` are
    the chats that receive cards."""

    def __init__(self, gateway: AsyncInterlock, bot: ChatService, people: Mapping[Id, AsyncInterlock],
                 asking: Sequence[Id], places: Places, save: Callable[[], None], redact: Redact,
                 public_url: str | None = None) -> None:
        self._gateway = gateway
        self._bot = bot
        self._people = people
        self._asking = asking
        self._places = places
        self._save = save
        self._redact = redact
        self._public_url = public_url
        self._names: dict[Id, str] = {}
        """Whose key a person votes under, by their own chat."""
        self._may_report = True
        """False after the gateway has refused a report: the role of the bridge's own key only reads."""
        self._sending: dict[tuple[Id, str], asyncio.Event] = {}
        """By chat and approval, cards that are being sent: a press may arrive before the reply that names its card."""
        self._rejected: dict[str, str] = {}
        """Why a chat has no card of an approval."""
        self._reporting = asyncio.Lock()
        self._reported: dict[str, list[str]] = {}
        """The chats that the gateway names for an approval."""
        self._workers = ChatWorkers(self._bring_up_to_date)

    async def follow(self) -> None:
        """Ask about waiting approvals, then about new ones, for ever; each chat at its own pace. Raises BotRejected,
        and OSError if the file cannot be written."""
        await self._workers.beside(self._follow_feed())

    async def _follow_feed(self) -> None:
        while True:
            try:
                await self._catch_up()
                async for item in self._gateway.events.follow(since=self._places.feed):
                    if isinstance(item, StreamEvent):
                        await self._take(item.data)
                        if item.cursor is not None:
                            self._places.feed = item.cursor
            except CursorExpired:
                self._places.feed = None
            except InterlockError as error:
                log.warning("approvals_not_followed", error=str(error))
                await asyncio.sleep(AGAIN_S)

    async def _catch_up(self) -> None:
        """Find the end of the feed, so that no event is missed between it and the inbox; then ask about waiting
        approvals, and mark those that were decided meanwhile."""
        if self._places.feed is None:
            while True:
                page = await self._gateway.events.list(since=self._places.feed, limit=PAGE_MAX)
                self._places.feed = page.next_cursor
                if not page.has_more:
                    break
            newest_first = [one async for one in self._gateway.approvals.every(state="pending")]
            for approval in reversed(newest_first):
                self._ask(approval)
        for approval_id in list(self._places.asked):
            await self._look(approval_id)

    async def _take(self, event: FeedEvent) -> None:
        if event.event != "approval":
            return
        if event.state == "pending" and event.id not in self._places.asked:
            with_it = await self._approval(event.id)
            if with_it is not None and with_it.state == "pending":
                self._ask(with_it)
        elif event.state != "pending":
            await self._look(event.id)

    async def _approval(self, approval_id: str) -> Approval | None:
        try:
            return await self._gateway.approvals.get(approval_id)
        except NotFound:
            return None

    def _ask(self, approval: Approval) -> None:
        """Have it shown in every chat, once per approval, also after a restart. A card that the service rejects is
        replaced by a shorter one with a link; an approval that no chat accepts is noted as undelivered."""
        if approval.id in self._places.asked:
            return
        open_ = [chat for chat in self._asking if self._cards_waiting(chat) < MAX_CARDS_WAITING]
        for chat in self._asking:
            if chat not in open_:
                self._rejected[approval.id] = f"{MAX_CARDS_WAITING} others wait for the chat {chat}"
                log.warning("card_left_out", chat_id=chat, approval=approval.id, waiting=MAX_CARDS_WAITING)
        title = title_of_approval(redacted(approval, self._redact))
        question = self._places.asked[approval.id] = AskedQuestion(title, waiting=open_)
        self._note_if_undelivered(approval.id, question)
        self._save()
        for chat in open_:
            self._workers.wake(chat)

    def _cards_waiting(self, chat: Id) -> int:
        return sum(chat in question.waiting for question in self._places.asked.values())

    def _note_if_undelivered(self, approval_id: str, question: AskedQuestion) -> None:
        if not question.waiting and not question.messages and question.outcome is None:
            why = self._rejected.get(approval_id, "the config names no chat")
            self._places.undelivered[approval_id] = why
            log.error("approval_undelivered", approval=approval_id, reason=why)

    async def _bring_up_to_date(self, chat: Id) -> bool:
        """Send the oldest card that waits for a chat, or mark the oldest there that is decided."""
        for approval_id, pending in self._places.asked.items():
            if pending.outcome is not None and (sent := _card_in(pending, chat)) is not None:
                await self._bot.edit(*sent, pending.outcome)
                pending.messages.remove(sent)
                self._forget_if_marked(approval_id, pending)
                self._save()
                return True
            if chat in pending.waiting:
                await self._send_card(approval_id, pending, chat)
                return True
        return False

    async def _send_card(self, approval_id: str, pending: AskedQuestion, chat: Id) -> None:
        """Send a card with the approval's current state, since the chat may have had to wait."""
        try:
            approval = await self._approval(approval_id)
            card = None if approval is None else question(
                approval, self._bot.limits, self._redact, kind=await self._kind(approval),
                link=link_to(self._public_url, approval_id))
        except InterlockError as error:
            log.warning("card_waits_for_the_gateway", approval=approval_id, error=str(error))
            await asyncio.sleep(AGAIN_S)
            return
        wanted = approval is not None and approval.state == "pending" and pending.outcome is None
        if approval is not None and card is not None and wanted:
            await self._show_in(chat, approval, pending, card)
        if chat in pending.waiting:
            pending.waiting.remove(chat)
        if wanted:
            self._note_if_undelivered(approval_id, pending)
        self._forget_if_marked(approval_id, pending)
        self._save()
        if pending.outcome is not None:  # It was decided while its card was sent.
            self._mark(pending)
        elif approval is not None:
            await self._report(approval, pending)

    async def _report(self, approval: Approval, question: AskedQuestion) -> None:
        """Name the chats that have its card at the gateway, unless it knows them (J-5). What fails is repeated by the
        next `_catch_up`."""
        async with self._reporting:  # Chats that are done at the same time are named in one request.
            known = self._reported.get(approval.id)
            if known is None:
                known = [card.chat for card in approval.cards if card.service == self._bot.name]
            order = [*(chat for chat in self._asking if chat in question.chats),
                     *(chat for chat in question.chats if chat not in self._asking)]
            chats = list(dict.fromkeys([await self._chat_name(chat) for chat in order[:MAX_CARD_CHATS]]))
            if not self._may_report or question.outcome is not None or chats == known:
                return
            try:
                await self._gateway.approvals.report_cards(approval.id, self._bot.name, chats)
                self._reported[approval.id] = chats
            except Forbidden:
                self._may_report = False
                log.warning("cards_not_reported", error="The bridge's own key may only read, so approvals do not name "
                            "the chats that have their question; give it a key with the role operator or approver.")
            except InterlockError as error:
                log.info("cards_not_reported", approval=approval.id, error=str(error))

    async def _chat_name(self, chat: Id) -> str:
        """Name a chat as approvers know it: a person's own by whose key they vote under, any other by its id."""
        person = self._people.get(chat)
        if chat not in self._names and person is not None:
            with suppress(InterlockError):
                self._names[chat] = named((await person.whoami()).principal)[:CHAT_NAME_CHARS]
        return self._names.get(chat, str(chat)[:CHAT_NAME_CHARS])

    async def _show_in(self, configured: Id, approval: Approval, question: AskedQuestion, card: Question) -> None:
        chat_id, link = configured, link_to(self._public_url, approval.id)
        try:
            chat_id = await self._bot.open_chat(configured)
        except BotRejected:
            raise
        except ChatRefused as refusal:
            self._note_rejected(chat_id, approval, refusal)
            return
        sent = self._sending[chat_id, approval.id] = asyncio.Event()
        try:
            spot = await self._spot(chat_id, approval)
            question.messages.append(await self._show_there(configured, spot, card))
        except BotRejected:  # The card is sent by the next start, with a valid token.
            raise
        except ChatRefused as refusal:
            self._note_rejected(chat_id, approval, refusal)
            # Its thread may have been deleted: the session's next card begins another one.
            self._places.threads.pop(_thread_name(chat_id, approval), None)
            if not await self._show_short(chat_id, approval, question, link):
                return
        finally:
            del self._sending[chat_id, approval.id]
            sent.set()
        question.chats.append(configured)

    def _note_rejected(self, chat_id: Id, approval: Approval, refusal: ChatRefused) -> None:
        self._rejected[approval.id] = str(refusal)
        log.warning("card_rejected", chat_id=chat_id, approval=approval.id, error=str(refusal))

    async def _show_there(self, chat_id: Id, spot: Spot, card: Question) -> tuple[Spot, Id]:
        """Send a card and return its message, in the chat as presses state it: it may have moved meanwhile."""
        number = await self._show(spot, card)
        return spot._replace(chat_id=await self._bot.open_chat(chat_id)), number

    async def _show(self, spot: Spot, card: Question) -> Id:
        for text in card.messages[:-1]:
            await self._bot.send(spot, text)
        return await self._bot.send(spot, card.messages[-1], buttons=card.buttons)

    async def _show_short(self, chat_id: Id, approval: Approval, question: AskedQuestion, link: str | None) -> bool:
        """Send the short card outside of threads; return False if that is rejected, too."""
        spot = Spot(chat_id)
        try:
            card = short_question(approval, self._redact, link)
            question.messages.append(await self._show_there(chat_id, spot, card))
        except BotRejected:
            raise
        except ChatRefused as refusal:
            self._note_rejected(chat_id, approval, refusal)
            return False
        return True

    async def _spot(self, chat_id: Id, approval: Approval) -> Spot:
        """Return the thread of the approval's session, if the service collects cards in threads. A question has its own
        message, whose thread is its answer."""
        if not self._bot.limits.threads or approval.kind == "question" or not approval.session_id:
            return Spot(chat_id)
        name = _thread_name(chat_id, approval)
        if name not in self._places.threads:
            shown = one_line(self._redact(" · ".join(names(approval))), THREAD_CHARS)
            self._places.threads[name] = await self._bot.send(
                Spot(chat_id), f"Approvals of session {approval.session_id}\n{shown}")
            self._save()
        return Spot(chat_id, self._places.threads[name])

    async def _kind(self, approval: Approval) -> str | None:
        """Return the kind of a described call, if the config lets each of its kind be allowed in the session."""
        request = request_of_approval(approval).asked
        if approval.door != "tool" or approval.kind != "permission" or not request.described or request.kind is None:
            return None
        try:
            await self._gateway.approvals.rule(approval.id, scope="session", width="described")
        except InterlockError:
            return None
        return request.kind

    async def _look(self, approval_id: str) -> None:
        """Have a question marked as decided in its place: it never reappears (P-5)."""
        question = self._places.asked.get(approval_id)
        approval = await self._approval(approval_id) if question is not None else None
        if question is None:
            return
        if approval is not None and approval.state == "pending":
            question.waiting = [chat for chat in question.waiting if chat in self._asking]
            for chat in question.waiting:
                self._workers.wake(chat)
            self._reported.pop(approval_id, None)
            await self._report(approval, question)
            return
        question.outcome = decided(approval, question.title) if approval is not None else (
            f"▫️ {question.title}\nno longer there")
        self._places.undelivered.pop(approval_id, None)
        self._forget_if_marked(approval_id, question)
        self._save()
        self._mark(question)

    def _mark(self, question: AskedQuestion) -> None:
        for chat in [*(spot.chat_id for spot, _ in question.messages), *question.waiting]:
            self._workers.wake(chat)

    def _forget_if_marked(self, approval_id: str, question: AskedQuestion) -> None:
        if question.outcome is not None and not question.messages and not question.waiting:
            for kept in (self._places.asked, self._rejected, self._reported):
                kept.pop(approval_id, None)

    async def pressed(self, press: ButtonPress) -> str | None:
        """Send a press as a vote of the person, on exactly the input that the card showed (P-2); return the outcome for
        the person, or None for a button that is not ours."""
        wanted = read_press(press.data)
        return None if wanted is None else await self._voted(press, wanted)

    async def _voted(self, press: ButtonPress, wanted: Press) -> str:
        person = self._people.get(press.user_id)
        if person is None:
            return f"You cannot decide here: the id {press.user_id} has no key."
        is_ours = await self._is_ours(press, wanted.approval_id)
        try:
            approval = await person.approvals.get(wanted.approval_id)
            if not is_ours:
                return not_counted(approval)
            if not approval.digest.startswith(wanted.digest):
                return "The request has changed since; see the newer question."
            if approval.state == "pending" and (why := why_elsewhere(approval)) is not None:
                return f"✖️ {why} It is decided on its page, or with: interlock approve {approval.id}"
            if wanted.decision == "grant" and (why := not_of_its_digest(approval)) is not None:
                return f"✖️ {why}"
            return counted(await person.approvals.vote(
                wanted.approval_id, wanted.decision, digest=approval.digest,
                comment=f"by {self._bot.name.capitalize()}", remember=DESCRIBED if wanted.with_kind else None,
                idempotency_key=f"{self._bot.name}-press:{press.press_id}"))
        except Refused as no:
            return refused(no.problem, no.detail, for_people(no.hint, no.retry_after_s))
        except InterlockError as error:
            return f"The gateway could not be reached: {error}"

    async def _is_ours(self, press: ButtonPress, approval_id: str) -> bool:
        """Return whether the pressed card was sent for this approval; True if the service does not state it."""
        if press.message_id is None or press.spot is None:
            return True
        card = (press.spot.chat_id, press.message_id)
        sending = self._sending.get((press.spot.chat_id, approval_id))
        if not self._was_sent(card, approval_id) and sending is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(SHOWN_WITHIN_S):
                    await sending.wait()
        return self._was_sent(card, approval_id)

    def _was_sent(self, card: tuple[Id, Id], approval_id: str) -> bool:
        question = self._places.asked.get(approval_id)
        return question is not None and any((spot.chat_id, number) == card for spot, number in question.messages)

    async def answered(self, message: ChatMessage, person: AsyncInterlock) -> bool:
        """Send a reply to an agent's question as its answer; return False if it replies to none."""
        if message.answers is None:
            return False
        for approval_id, pending in self._places.asked.items():
            if any(spot.chat_id == message.spot.chat_id and number == message.answers
                   for spot, number in pending.messages):
                approval = await person.approvals.get(approval_id)
                if approval.kind != "question":
                    return False
                await person.approvals.answer(approval_id, message.text, idempotency_key=(
                    f"{self._bot.name}-answer:{message.spot.chat_id}:{message.message_id}"))
                return True
        return False


def _card_in(question: AskedQuestion, chat: Id) -> tuple[Spot, Id] | None:
    return next(((spot, number) for spot, number in question.messages if spot.chat_id == chat), None)


def _thread_name(chat_id: Id, approval: Approval) -> str:
    return f"{chat_id} {approval.session_id}"
