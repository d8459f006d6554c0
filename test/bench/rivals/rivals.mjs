import { FASTIFY_BULLMQ } from './fastify-bullmq.mjs';
import { FASTIFY_ORT } from './fastify-ort.mjs';
import { LITSERVE } from './litserve.mjs';
import { MOSEC } from './mosec.mjs';

/**
 * The servers that Nereid is compared with, each behind the same few functions.
 *
 * `serves(row)`: whether it has this model in this encoding. `missing()`: why it cannot run here, or undefined.
 * `start({ port, models })`: its processes, once they answer. `request(row)`: what to send, in the form in which its
 * users send it, and how to check an answer (`mode: 'grpc'` where it goes to the server's `grpcPort`). A row is
 * `{ model, encoding: 'json' | 'binary' | 'grpc', seed }`; another seed gives other inputs.
 *
 * @typedef {{ name: string, title: string, serves: (row: object) => boolean, missing: () => Promise<string | undefined>,
 *   start: (options: { port: number, models: string }) => Promise<{ port: number, grpcPort?: number, pids: Record<string, number>,
 *   redis?: object, stop: () => Promise<void> }>, request: (row: object) => { mode?: 'grpc', path: string,
 *   headers: Record<string, string>, body: Buffer, check: (body: Buffer, headers: Headers) => string | undefined } }} Rival
 */

/** @type {readonly Rival[]} */
export const RIVALS = [FASTIFY_ORT, FASTIFY_BULLMQ, LITSERVE, MOSEC];
