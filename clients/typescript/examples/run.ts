/** Send a prompt to an agent, print and allow each approval that it needs, and print the output:
 *
 *     INTERLOCK_URL=http://127.0.0.1:7420 INTERLOCK_KEY=… node dist/examples/run.js shell "ls -l"
 */
import {connect, Refused, type Schemas} from '../src/index.js';

const [agent = 'shell', prompt = 'ls -l'] = process.argv.slice(2);
const gateway = connect();

async function allow(approvalId: string): Promise<void> {
  const path = {approval_id: approvalId};
  const {data: approval} = await gateway.api.GET('/v1/approvals/{approval_id}', {params: {path}});
  if (approval?.state !== 'pending') return;
  console.log('allowed:', approval.title);
  // The digest binds the vote to the request that was printed.
  const body = {decision: 'grant', digest: approval.digest, comment: 'by the example'} as const;
  await gateway.api.POST('/v1/approvals/{approval_id}/grants', {params: {path}, body});
}

function show({event, state, output, message}: Schemas['StatusEvent']): void {
  if (event === 'state') console.log('state:', state);
  for (const {role, content} of output?.output ?? []) {
    for (const {value} of content as Schemas['ContentPart'][]) console.log(`${String(role)}: ${String(value).trimEnd()}`);
  }
  if (event === 'error') console.error(message);
}

try {
  const messages: Schemas['UserMessage'][] = [{role: 'user', content: [{contentType: 'text', value: prompt}]}];
  const {data: command} = await gateway.api.POST('/v1/commands', {
    body: {type: 'execute', target: {agent_id: agent}, payload: {messages}},
  });
  for await (const {data} of gateway.followCommand(command!.id)) {
    show(data);
    if (data.event === 'approval' && data.approval_id) await allow(data.approval_id);
  }
} catch (error) {
  if (!(error instanceof Refused)) throw error;
  console.error(error.message);
  process.exitCode = 1;
}
