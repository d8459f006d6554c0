import type { IncomingMessage } from 'node:http';
import { bodyTooLarge } from '@nereid/protocol';
import { createBodyBytes } from '../body-bytes.ts';
import { bodyCoding } from './content-coding.ts';
import type { Inflate, Inflated } from './inflate.ts';
import { dropBytes, type RequestBytes, takeBytes } from './request-bytes.ts';

/**
 * Of a body that is over its limit, so many times the limit are read and thrown away, so that the
 * client can finish sending, read the answer and use the connection again; more ends the connection.
 */
const DISCARD_FACTOR = 16;

/**
 * Not ok: over its own limit, by its announced length or by what had come, not to be inflated, or over
 * the gateway's limit for all requests.
 */
export type Body = Inflated;

/**
 * Reads a request's body and calls back once, or never where the client leaves before its end.
 * `account` takes its bytes as they come.
 */
export function readBody(
  request: IncomingMessage,
  bytes_max: number,
  done: (body: Body) => void,
  account: RequestBytes,
): void {
  const announced = Number(request.headers['content-length'] ?? 0);
  const body = createBodyBytes(announced);
  let received = 0;
  let over = announced > bytes_max;
  let held: Body | undefined;

  const answer = (refused: Body) => {
    if (endsWithAnswer(request) && announced <= bytes_max * DISCARD_FACTOR) held = refused;
    else done(refused);
  };

  const refuse = (refused: Body) => {
    over = true;
    body.drop();
    dropBytes(account);
    answer(refused);
  };

  const onData = (chunk: Buffer) => {
    received += chunk.length;
    if (over) {
      if (received > bytes_max * DISCARD_FACTOR) request.destroy();
      return;
    }
    if (received > bytes_max) refuse(tooLarge(received, bytes_max));
    else if (!takeBytes(account, chunk.length)) refuse(tooManyInFlight(account));
    else body.add(chunk);
  };

  request.on('data', onData);
  request.on('end', () => {
    if (!over) done({ ok: true, bytes: body.end() });
    else if (held !== undefined) done(held);
  });
  if (over) answer(tooLarge(announced, bytes_max));
}

/**
 * The connection ends with the answer. If that came while the client still sends, its bytes would reset the connection,
 * and the client might never see the answer.
 */
function endsWithAnswer({ httpVersion, headers }: IncomingMessage): boolean {
  return httpVersion === '1.0' || /\bclose\b/i.test(headers.connection ?? '');
}

function tooLarge(length: number, bytes_max: number): Body {
  return { ok: false, error: bodyTooLarge(length, bytes_max), tooLarge: true };
}

function tooManyInFlight({ inFlight }: RequestBytes): Body {
  return { ok: false, error: inFlight.refusal(), tooLarge: false };
}

/** As `readBody`, for a request whose `Content-Encoding` is taken; its limits are on both forms of the body. */
export function readEncodedBody(
  request: IncomingMessage,
  bytes_max: number,
  inflate: Inflate,
  done: (body: Body) => void,
  account: RequestBytes,
): void {
  const encoded = bodyCoding(request.headers['content-encoding']) !== 'identity';
  readBody(request, bytes_max, encoded ? inflateTo(inflate, done, account) : done, account);
}

function inflateTo(inflate: Inflate, done: (body: Body) => void, account: RequestBytes): (body: Body) => void {
  const take = (inflated: Body) => {
    if (!inflated.ok || takeBytes(account, inflated.bytes.byteLength)) done(inflated);
    else done(tooManyInFlight(account));
  };
  return (body) => {
    if (body.ok) inflate(body.bytes, take);
    else done(body);
  };
}
