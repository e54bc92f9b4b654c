#!/usr/bin/env node
// An agent for Interlock's adapter `dps`, with nothing but Node.js: frames of RAWP-DPS as JSON lines on standard input and
// output. It greets, asks before it writes a note, writes it after a yes and only then, and stops when it is told to.
// docs/how-to/write-a-dps-agent.md explains it line by line.

import { createInterface } from "node:readline";
import { randomUUID } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";

const WORD_MS = 20; // A model would take its time, too.

let workspace = process.env.RAWP_WORKSPACE_PATH ?? ".";
let turn = null; // The turn that runs: { turnId, cancelled }.
let turns = 0;
const waiting = new Map(); // interaction_id → what to call with the answer.

// --- frames out ---

function send(type, payload, metadata = {}) {
  const frame = { type, message_id: randomUUID(), metadata, payload };
  process.stdout.write(JSON.stringify(frame) + "\n");
}

// One block of text: pieces at their offsets, then the whole. Offsets count code points, not UTF-16 units.
async function say(text) {
  const block_id = randomUUID();
  let said = "";
  for (const word of text.match(/\S+\s*/g) ?? []) {
    if (turn.cancelled) break;
    send("agent.text.delta", { turn_id: turn.turnId, block_id, offset: [...said].length, text: word });
    said += word;
    await new Promise((resolve) => setTimeout(resolve, WORD_MS));
  }
  send("agent.text.done", { turn_id: turn.turnId, block_id, text: said });
}

// Announce a tool call, ask for it, and run it after a yes. Anything but a clear "allow" is a no.
async function writeNote(text) {
  const invocation_id = randomUUID();
  const input = { path: "note.txt", text };
  send("tool.invoke.request",
    { invocation_id, turn_id: turn.turnId, tool_name: "write_note", input, title: "write note.txt" }, { kind: "edit" });

  const answer = await ask("Write note.txt?", { tool_name: "write_note", invocation_id });
  const started = Date.now();
  const result = (status, output) => send("tool.invoke.result",
    { invocation_id, status, output_type: "text", output, duration_ms: Date.now() - started });

  if (answer.decision !== "allow" || turn.cancelled) {
    result("denied", answer.message ?? "denied");
    return false;
  }
  try {
    await writeFile(join(workspace, input.path), input.text + "\n");
    send("tool.invoke.stream", { invocation_id, channel: "stdout", offset: 0, text: "wrote note.txt\n" });
    result("ok", "wrote note.txt");
    return true;
  } catch (error) {
    result("error", String(error));
    return false;
  }
}

function ask(title, context) {
  const interaction_id = randomUUID();
  const options = [
    { option_id: "yes", label: "Yes, this once", kind: "allow_once" },
    { option_id: "no", label: "No", kind: "reject_once" },
  ];
  const answered = new Promise((resolve) => waiting.set(interaction_id, resolve));
  send("agent.interaction.request", { interaction_id, interaction_type: "PERMISSION", title, context, options });
  return answered;
}

// --- one prompt, one turn ---

async function work(prompt) {
  turn = { turnId: randomUUID(), cancelled: false };
  send("session.turn.start", { turn_id: turn.turnId, turn_index: turns++ }, { prompt_id: prompt.prompt_id });

  const text = prompt.text ?? prompt.content.map((block) => block.text ?? "").join("\n");
  await say(`Hello! You said: ${text} `);
  if (!turn.cancelled) {
    const written = await writeNote(text);
    await say(written ? "It is in note.txt." : "Then I leave note.txt as it is.");
  }

  const stop_reason = turn.cancelled ? "cancelled" : "end_turn";
  send("session.turn.end", { turn_id: turn.turnId, stop_reason });
  send("session.usage", { // The usage follows at once. This agent has no model, so it has used nothing.
    turn_id: turn.turnId,
    token_usage: { input_tokens: 0, output_tokens: 0 },
    cost_usage: { limit: -1, used: 0, unit: "USD" },
    message_usage: { limit: -1, used: turns, unit: "COUNT" },
    context_window: {},
    time_to_reset: "2100-01-01T00:00:00.000Z",
  });
  turn = null;
}

// --- frames in ---

const actions = {
  "control.session.open": ({ payload, message_id }) => {
    workspace = payload.workspace;
    send("session.capabilities", {
      dps_version: "rawp-dps-1.0",
      features: { adapter_type: "process", permission: "asks" },
      agent: { agent_id: payload.agent_id, name: "Note taker", version: "1.0.0" },
    }, { in_reply_to: message_id });
  },
  "control.prompt.request": ({ payload }) => { work(payload); },
  "control.interaction.response": ({ payload }) => {
    waiting.get(payload.interaction_id)?.(payload);
    waiting.delete(payload.interaction_id);
  },
  "control.turn.cancel": () => { if (turn) turn.cancelled = true; },
  "session.error": ({ payload }) => console.error(`refused: ${payload.error_code} ${payload.message}`),
};

createInterface({ input: process.stdin }).on("line", (line) => {
  const frame = JSON.parse(line);
  actions[frame.type]?.(frame); // A type that we do not know is passed over.
}).on("close", () => process.exit(0));
