// Opens transcripts with the program whose format they have, and writes one with it.
// node pi.mjs PACKAGE-DIRECTORY context FILE…      prints one JSON line a file: what it would put before a model
// node pi.mjs PACKAGE-DIRECTORY size FILE…         prints one JSON line a file: how large it takes the context to be
// node pi.mjs PACKAGE-DIRECTORY write DIRECTORY [TEXT]  writes a transcript there, prints {file, context}; escapes in TEXT
//                                                  are JSON's
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [directory, verb, ...rest] = process.argv.slice(2);
const { SessionManager } = await import(pathToFileURL(join(directory, "dist/index.js")));

if (verb === "context") {
  for (const file of rest) {
    const began = performance.now();
    const session = SessionManager.open(file);
    const opened = performance.now();
    const context = session.buildSessionContext();
    const built = performance.now();
    if (process.env.FIGURES) {
      console.log(JSON.stringify({ open_s: (opened - began) / 1e3, context_s: (built - opened) / 1e3,
        messages: context.messages.length, memory: process.memoryUsage().rss }));
    } else console.log(JSON.stringify(context));
  }
} else if (verb === "size") {
  const sizes = await import(pathToFileURL(join(directory, "dist/core/compaction/compaction.js")));
  for (const file of rest) {
    const session = SessionManager.open(file);
    const usage = sizes.getLastAssistantUsage(session.getBranch());
    const context = session.buildSessionContext();
    console.log(JSON.stringify({ last: usage ? sizes.calculateContextTokens(usage) : 0,
      estimate: sizes.estimateContextTokens(context.messages).tokens }));
  }
} else {
  const session = SessionManager.create(rest[0], rest[0]);
  const told = { api: "a", provider: "p", model: "m", stopReason: "stop", timestamp: 2,
    usage: { input: 1, output: 1, cacheRead: 0, cacheWrite: 0, totalTokens: 2,
      cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 } } };
  const answer = (text) => session.appendMessage({ role: "assistant", content: [{ type: "text", text }], ...told });
  const first = session.appendMessage({ role: "user", content: "안녕 \u2028 \"q\"", timestamp: 1 });
  answer("one");
  session.appendLabelChange(first, "start");
  session.appendThinkingLevelChange("high");
  session.appendModelChange("q", "n");
  session.branchWithSummary(first, "what was tried");
  const kept = session.appendMessage({ role: "user", content: "again", timestamp: 3 });
  answer("two");
  session.appendCustomEntry("x", { a: [1, null] });
  session.appendCustomMessageEntry("note", "look", true, { deep: { er: 1 } });
  session.appendCompaction("so far", kept, 99);
  answer("three");
  session.appendSessionInfo(" a name ");
  if (rest[1]) session.appendMessage({ role: "user", content: JSON.parse(`"${rest[1]}"`), timestamp: 4 });
  console.log(JSON.stringify({ file: session.getSessionFile(), context: session.buildSessionContext() }));
}
