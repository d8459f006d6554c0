import { gunzipSync, inflateSync } from 'node:zlib';
import { tellsInside } from './inside.mjs';
import { readJson } from './json-tree.mjs';
import { FAILING } from './models.mjs';

/** What is wrong with the answers to a request. */

/** Errors of the server that a recorded case has for that kind of request (test/conformance/cases). */
const SERVER_ERRORS = [
  { case: 'errors_http/execution_fails', status: 500, applies: ({ path }) => path.includes(FAILING.name) },
  {
    case: 'logging/format_unknown',
    status: 503,
    applies: ({ path }) => /^(?:http:\/\/[^/]+)?\/v2\/logging/.test(path),
  },
  {
    case: 'repository_refused/load',
    status: 503,
    applies: ({ path }) => /^(?:http:\/\/[^/]+)?\/v2\/repository\/models\/[^/]+\/load/.test(path),
  },
  {
    case: 'repository_refused/unload',
    status: 503,
    applies: ({ path }) => /^(?:http:\/\/[^/]+)?\/v2\/repository\/models\/[^/]+\/unload/.test(path),
  },
];

const HEALTH = /^\/v2\/health\/(live|ready)(\?|$)/;
const OWN_ROUTES = /\/jobs/;
const EXCERPT = 300;
const EVENT = Buffer.from('data: ');

/** Why the exchange is not in order; undefined where it is. */
export function judgeHttp(request, delivery, { answers, ended, problem }) {
  if (problem !== undefined && !(delivery.leave && problem.endsWith('cut short'))) return problem;
  for (const answer of answers) {
    const wrong = anyAnswer(request, answer);
    if (wrong !== undefined) return `${wrong}: ${excerpt(answer)}`;
  }
  if (delivery.unsure) return undefined;
  const needed = request.expect === 'valid' ? delivery.answers : 1;
  if (answers.length < needed)
    return `${answers.length} answers of ${needed}${ended ? ', then the connection ended' : ''}`;
  for (const answer of answers) {
    const wrong = request.expect === 'any' ? undefined : expected(request, answer);
    if (wrong !== undefined) return `${wrong}: ${excerpt(answer)}`;
  }
  return undefined;
}

function anyAnswer(request, { status, headers, body }) {
  if (status >= 200 && status < 300) return undefined;
  const isClients = (status >= 400 && status < 500) || status === 501;
  if (!isClients && !SERVER_ERRORS.some((one) => one.status === status && one.applies(request)))
    return `status ${status}`;
  if (request.method === 'HEAD' || (HEALTH.test(request.path) && body.length === 0)) return undefined;
  const event = isFirstEvent({ headers, body }, request);
  if (!event && headers.get('content-type') !== 'application/json')
    return `an error of type ${headers.get('content-type')}`;
  let json;
  try {
    json = readJson(event ? body.subarray(EVENT.length) : body);
  } catch (error) {
    return `an error that is no JSON (${error.message})`;
  }
  const text = json instanceof Map ? json.get('error') : undefined;
  if (typeof text !== 'string' || text.trim() === '') return 'an error without a text';
  const names = [...json.keys()].filter((name) => name !== 'error');
  if (names.some((name) => !(OWN_ROUTES.test(request.path) && ['code', 'field'].includes(name))))
    return `an error with ${names}`;
  return tellsInside(text) ? 'an error that tells of the inside' : undefined;
}

/** An error in place of a stream's first answer is an event, as in Triton. */
function isFirstEvent({ headers, body }, { path }) {
  return (
    /\/generate_stream(\?|$)/.test(path) &&
    headers.get('content-type')?.startsWith('text/event-stream') === true &&
    body.subarray(0, EVENT.length).equals(EVENT)
  );
}

function expected(request, answer) {
  const isRefusal = answer.status >= 400;
  if (request.expect === 'refused') return isRefusal ? undefined : 'not refused';
  if (answer.status !== request.status) return `status ${answer.status}, not ${request.status}`;
  const wanted = request.html ? 'text/html' : request.events ? 'text/event-stream' : undefined;
  if (wanted !== undefined && !answer.headers.get('content-type')?.startsWith(wanted)) return `no ${wanted}`;
  try {
    return request.check({ ...answer, body: plainBody(request, answer) });
  } catch (error) {
    return error.message;
  }
}

/** The body without its compression, which must be one that the client takes. */
function plainBody({ headers: asked }, { headers, body }) {
  const encoding = headers.get('content-encoding') ?? 'identity';
  if (encoding === 'identity') return body;
  const accepted = asked.filter(([name]) => /^accept-encoding$/i.test(name)).map(([, value]) => value);
  if (!accepted.some((value) => value.includes(encoding))) throw new Error(`the answer is in ${encoding}, unasked`);
  return encoding === 'gzip' ? gunzipSync(body) : inflateSync(body);
}

function excerpt({ status, body }) {
  return `${status} ${body.toString('latin1', 0, EXCERPT)}`;
}
