"""Approvals, asked in chats and decided there: a vote goes out under the key of the person who pressed (P-3, P-8)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

import structlog

from interlock.channels.telegram.bot import BotRefused, TelegramBot
from interlock.channels.telegram.messages import counted, decided, read_press, refused
from interlock.channels.telegram.places import Asked, Places
from interlock.channels.telegram.question import question
from interlock.channels.telegram.updates import Pressed, Said, Spot
from interlock.command.card.permission_request import not_of_its_digest, request_of_approval
from interlock.protocol.limits import PAGE_MAX
from interlock.protocol.resources import Approval, FeedEvent, Remembering, RuleMatch
from interlock.sdk import AsyncInterlock
from interlock.sdk.follower import Told
from interlock.sdk.problems import CursorExpired, InterlockError, NotFound, Refused

AGAIN_S = 5.0
DESCRIBED = Remembering(scope="session", match=RuleMatch(width="described"))
"""Every described call of this kind, in its session."""

Redact = Callable[[str], str]
log = structlog.get_logger("interlock.telegram")


class Approvals:
    """Follows the tenant's feed. `people` by Telegram id, each with the gateway asked under their own key; `asking` are
    the chats where questions go."""

    def __init__(self, gateway: AsyncInterlock, bot: TelegramBot, people: Mapping[int, AsyncInterlock],
                 asking: Sequence[int], places: Places, save: Callable[[], None], redact: Redact) -> None:
        self._gateway = gateway
        self._bot = bot
        self._people = people
        self._asking = asking
        self._places = places
        self._save = save
        self._redact = redact

    async def follow(self) -> None:
        """Ask what waits, then what comes; for ever."""
        while True:
            try:
                await self._catch_up()
                async for heard in self._gateway.events.follow(since=self._places.feed):
                    if isinstance(heard, Told):
                        await self._take(heard.data)
                        if heard.cursor is not None:
                            self._places.feed = heard.cursor
            except CursorExpired:
                self._places.feed = None
            except InterlockError as error:
                log.warning("approvals_not_followed", error=str(error))
                await asyncio.sleep(AGAIN_S)

    async def _catch_up(self) -> None:
        """Find the end of the feed, so that nothing falls between it and the inbox; then ask what waits, and mark what
        was decided meanwhile."""
        if self._places.feed is None:
            while True:
                page = await self._gateway.events.list(since=self._places.feed, limit=PAGE_MAX)
                self._places.feed = page.next_cursor
                if not page.has_more:
                    break
            async for approval in self._gateway.approvals.every(state="pending"):
                await self._ask(approval)
        for approval_id in list(self._places.asked):
            await self._look(approval_id)

    async def _take(self, event: FeedEvent) -> None:
        if event.event != "approval":
            return
        if event.state == "pending" and event.id not in self._places.asked:
            with_it = await self._approval(event.id)
            if with_it is not None and with_it.state == "pending":
                await self._ask(with_it)
        elif event.state != "pending":
            await self._look(event.id)

    async def _approval(self, approval_id: str) -> Approval | None:
        try:
            return await self._gateway.approvals.get(approval_id)
        except NotFound:
            return None

    async def _ask(self, approval: Approval) -> None:
        """Ask in every chat that is asked; once an approval, also over a restart."""
        if approval.id in self._places.asked:
            return
        title = self._redact(approval.title)
        asked = Asked(title)
        asking = question(approval, self._redact, await self._kind(approval))
        for chat_id in self._asking:
            spot = Spot(chat_id)
            try:
                for text in asking.messages[:-1]:
                    await self._bot.say(spot, text)
                last = await self._bot.say(spot, asking.messages[-1], buttons=asking.buttons)
                asked.messages.append((spot, last))
            except BotRefused as refusal:
                log.warning("approver_not_asked", chat_id=chat_id, approval=approval.id, error=str(refusal))
        self._places.asked[approval.id] = asked
        self._save()

    async def _kind(self, approval: Approval) -> str | None:
        """The kind of a described call, if the config lets every one of its kind be allowed in the session."""
        asked = request_of_approval(approval).asked
        if approval.door != "tool" or approval.kind != "permission" or not asked.described or asked.kind is None:
            return None
        try:
            await self._gateway.approvals.rule(approval.id, scope="session", width="described")
        except InterlockError:
            return None
        return asked.kind

    async def _look(self, approval_id: str) -> None:
        """Mark a question as decided where it is: it never reappears (P-5)."""
        asked = self._places.asked.get(approval_id)
        approval = await self._approval(approval_id) if asked is not None else None
        if asked is None or (approval is not None and approval.state == "pending"):
            return
        for spot, message_id in asked.messages:
            text = decided(approval, asked.title) if approval is not None else f"▫️ {asked.title}\nno longer there"
            await self._bot.change(spot, message_id, text)
        self._places.asked.pop(approval_id, None)
        self._save()

    async def pressed(self, press: Pressed) -> None:
        """Count a press as a vote of the person who pressed, on the very input that the question showed (P-2)."""
        wanted, person = read_press(press.data), self._people.get(press.user_id)
        if wanted is None:
            return
        if person is None:
            told = f"You do not decide here: Telegram's id {press.user_id} has no key."
        else:
            try:
                approval = await person.approvals.get(wanted.approval_id)
                if not approval.digest.startswith(wanted.digest):
                    told = "What it would do has changed since; see the newer question."
                elif wanted.decision == "grant" and (why := not_of_its_digest(approval)) is not None:
                    told = f"✖️ {why}"
                else:
                    told = counted(await person.approvals.vote(
                        wanted.approval_id, wanted.decision, digest=approval.digest, comment="by Telegram",
                        remember=DESCRIBED if wanted.with_kind else None,
                        idempotency_key=f"telegram-press:{press.press_id}"))
            except Refused as no:
                told = refused(no.problem, no.detail, no.hint)
            except InterlockError as error:
                told = f"The gateway could not be asked: {error}"
        await self._bot.answer_press(press.press_id, told)

    async def answered(self, said: Said, person: AsyncInterlock) -> bool:
        """Take a reply to an agent's question as its answer; False where it replies to none."""
        if said.answers is None:
            return False
        for approval_id, asked in self._places.asked.items():
            if any(spot.chat_id == said.spot.chat_id and number == said.answers for spot, number in asked.messages):
                approval = await person.approvals.get(approval_id)
                if approval.kind != "question":
                    return False
                await person.approvals.answer(approval_id, said.text, idempotency_key=(
                    f"telegram-answer:{said.spot.chat_id}:{said.message_id}"))
                return True
        return False

