import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { ModelFound } from '@nereid/caller';
import type { FastifyReply } from 'fastify';
import { ASSETS } from '../assets.ts';
import type { Gateway } from '../gateway.ts';
import { sendJson } from './errors.ts';
import { openApiDocument } from './openapi-document.ts';

export interface OpenApi {
  /** GET /openapi.json: made anew where a model's record has changed. */
  sendDocument(reply: FastifyReply): void;
  /** GET /openapi: a page that reads the document and sends requests. It loads nothing from elsewhere. */
  sendPage(reply: FastifyReply): void;
}

export function createOpenApi(gateway: Pick<Gateway, 'servedModels'>, version: string): OpenApi {
  let made: { readonly models: readonly ModelFound[]; readonly text: string } | undefined;
  let page: Page | undefined;
  return {
    sendDocument(reply) {
      const models = gateway.servedModels();
      if (made === undefined || !sameEntries(made.models, models)) {
        made = { models, text: JSON.stringify(openApiDocument(models, version)) };
      }
      reply.header('Cache-Control', 'no-cache');
      sendJson(reply, made.text);
    },
    sendPage(reply) {
      page ??= readPage();
      reply.headers(page.headers).send(page.body);
    },
  };
}

function sameEntries(one: readonly ModelFound[], other: readonly ModelFound[]): boolean {
  return one.length === other.length && one.every((entry, index) => entry === other[index]);
}

interface Page {
  readonly body: Buffer;
  readonly headers: Readonly<Record<string, string>>;
}

/** Puts script and style into the page; its policy allows these two, by their hashes, and requests to this server. */
function readPage(): Page {
  const read = (name: string) => readFileSync(new URL(`openapi/${name}`, ASSETS), 'utf8');
  const script = read('page.js');
  const style = read('page.css');
  // By functions, since `$` in a text that is put in has a meaning of its own.
  const html = read('page.html')
    .replace('/* style */', () => style)
    .replace('/* script */', () => script);
  const policy = [
    "default-src 'none'",
    `script-src ${hashSource(script)}`,
    `style-src ${hashSource(style)}`,
    "connect-src 'self'",
    // The empty icon of the page, so that none is asked for.
    'img-src data:',
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ];
  return {
    body: Buffer.from(html),
    headers: {
      'Content-Type': 'text/html; charset=utf-8',
      'Content-Security-Policy': policy.join('; '),
      'X-Content-Type-Options': 'nosniff',
      'Referrer-Policy': 'no-referrer',
      'Cache-Control': 'no-cache',
    },
  };
}

function hashSource(text: string): string {
  return `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
}
