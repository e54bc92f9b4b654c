/** What a call can throw. */
import type {components} from './api.generated.js';

export type Problem = components['schemas']['Problem'];

/** The gateway refused: `code` is stable, `message` says what is wrong. */
export class Refused extends Error {
  override readonly name = 'Refused';

  constructor(readonly status: number, readonly code: string, detail: string, readonly problem: Problem | null) {
    super(detail);
  }
}

/** The gateway did not answer. Whether a change was made is unknown: send it again under the same key. */
export class Unreachable extends Error {
  override readonly name = 'Unreachable';
}

/** The answer is not that of a gateway of this version. */
export class NotAGateway extends Error {
  override readonly name = 'NotAGateway';
}

/** Read a refusal from an answer, whose body is consumed. */
export async function refusal(answer: Response): Promise<Refused> {
  const text = await answer.text();
  try {
    const problem = JSON.parse(text) as Problem;
    if (typeof problem.code === 'string') {
      return new Refused(answer.status, problem.code, `${problem.code}: ${problem.detail ?? problem.title}`, problem);
    }
  } catch {
    // A proxy's page is not a problem document.
  }
  return new Refused(answer.status, '', `The answer has status ${answer.status} and is not a gateway's.`, null);
}
