/** What a call can throw. */
import type {components} from './api.generated.js';

export type Problem = components['schemas']['Problem'];

/** Thrown if the gateway refuses: `code` is stable, `message` explains the problem. */
export class Refused extends Error {
  override readonly name = 'Refused';

  constructor(readonly status: number, readonly code: string, detail: string, readonly problem: Problem | null) {
    super(detail);
  }
}

/** Thrown if there is no response. It is unknown whether a change was made: send it again under the same key. */
export class Unreachable extends Error {
  override readonly name = 'Unreachable';
}

/** Thrown if the response is not a gateway's: a proxy's page, another program, another version. */
export class NotAGateway extends Error {
  override readonly name = 'NotAGateway';
}

/** Read a refusal from a response, whose body is consumed. */
export async function refusal(response: Response): Promise<Refused> {
  const text = await response.text();
  try {
    const problem = JSON.parse(text) as Problem;
    if (typeof problem.code === 'string') {
      return new Refused(response.status, problem.code, `${problem.code}: ${problem.detail ?? problem.title}`, problem);
    }
  } catch {
    // A proxy's page is not a problem document.
  }
  return new Refused(response.status, '', `The response has status ${response.status} and is not a gateway's.`, null);
}
