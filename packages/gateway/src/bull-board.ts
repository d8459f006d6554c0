/** bull-board over the job queues, without the web framework that its own adapters bring. */
import { readFile } from 'node:fs/promises';
import { extname, join, normalize, sep } from 'node:path';
import type { ModelRecord } from '@nereid/config';
import type { Directory, JobQueues, QueueKind } from '@nereid/transport';
import type { Queue } from 'bullmq';

export interface BoardRequest {
  readonly method: string;
  /** Behind the board's own, beginning with a slash; its escapes as they were sent. */
  readonly path: string;
  readonly query: Readonly<Record<string, unknown>>;
  readonly headers: Readonly<Record<string, string | undefined>>;
  /** Of JSON; undefined for none. */
  readonly body: unknown;
}

export interface BoardAnswer {
  readonly status: number;
  readonly type: string;
  readonly body: string | Buffer;
}

export interface BullBoard {
  /** `base`: the board's path, with a slash at its end. `canWrite`: with all its buttons. */
  answer(request: BoardRequest, base: string, canWrite: boolean): Promise<BoardAnswer>;
  close(): Promise<void>;
}

export interface BullBoardParts {
  readonly queues: Pick<JobQueues, 'openBullQueue'>;
  readonly directory: Directory<ModelRecord>;
}

interface Board {
  readonly routes: readonly BoardRoute[];
  /** The page and what it is made of. */
  readonly page: (base: string) => string;
  readonly staticFolder: string;
  readonly isPage: (path: string) => boolean;
  readonly show: (queues: readonly OpenQueue[]) => void;
}

interface BoardRoute {
  readonly methods: readonly string[];
  readonly pattern: RegExp;
  readonly names: readonly string[];
  readonly handle: (request: BoardRequest, params: Record<string, string>) => Promise<BoardAnswer>;
}

interface OpenQueue {
  readonly name: string;
  readonly queue: Queue;
}

const KINDS: readonly QueueKind[] = ['infer', 'dead', 'hooks'];
/** Of so many models the queues are shown, by name: the page asks for all of them every few seconds. */
const MODELS_MAX = 200;
const TYPES: Readonly<Record<string, string>> = {
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.json': 'application/json',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.ico': 'image/x-icon',
  '.woff2': 'font/woff2',
};
const JSON_TYPE = 'application/json; charset=utf-8';
const NOT_FOUND: BoardAnswer = { status: 404, type: JSON_TYPE, body: '{"error":"Not Found"}' };
/** The page would ask another company for its fonts. */
const FOREIGN_LINK = /<link[^>]+href="https?:[^>]*>/g;

/** Loads bull-board: nothing of it is in memory without this. */
export async function openBullBoard({ queues, directory }: BullBoardParts): Promise<BullBoard> {
  const opened = new Map<string, OpenQueue>();
  const boards = { read: await makeBoard(true), write: await makeBoard(false) };
  let shown = '';

  /** Shows the queues of the models that are known now. */
  const refresh = () => {
    const models = directory.records().map(({ name }) => name);
    const names = models.toSorted().slice(0, MODELS_MAX);
    const key = JSON.stringify(names);
    if (key === shown) return;
    shown = key;
    const wanted = names.flatMap((model) =>
      KINDS.map((kind) => {
        const id = `${kind}/${model}`;
        const queue = opened.get(id) ?? { name: id, queue: queues.openBullQueue(model, kind) };
        opened.set(id, queue);
        return queue;
      }),
    );
    for (const board of Object.values(boards)) board.show(wanted);
    for (const [id, { queue }] of opened) {
      if (wanted.some(({ name }) => name === id)) continue;
      opened.delete(id);
      queue.close().catch(() => {});
    }
  };

  return {
    async answer(request, base, canWrite) {
      refresh();
      const board = canWrite ? boards.write : boards.read;
      if (request.path.startsWith('/static/'))
        return staticFile(board.staticFolder, request.path.slice('/static'.length));
      // bull-board itself refuses each button of such queues; this does so for what it might forget.
      if (!canWrite && request.method !== 'GET') return { ...NOT_FOUND, status: 405, body: '{"error":"read-only"}' };
      for (const { methods, pattern, names, handle } of board.routes) {
        const match = methods.includes(request.method) ? pattern.exec(request.path) : null;
        if (match === null) continue;
        return handle(
          request,
          Object.fromEntries(names.map((name, index) => [name, unescaped(match[index + 1] ?? '')])),
        );
      }
      if (request.method !== 'GET' || !board.isPage(request.path)) return NOT_FOUND;
      return { status: 200, type: 'text/html; charset=utf-8', body: board.page(base) };
    },
    async close() {
      await Promise.allSettled([...opened.values()].map(({ queue }) => queue.close()));
      opened.clear();
    },
  };
}

async function makeBoard(readOnlyMode: boolean): Promise<Board> {
  const { createBullBoard } = await import('@bull-board/api');
  const { BullMQAdapter } = await import('@bull-board/api/bullMQAdapter');
  type Adapter = Parameters<typeof createBullBoard>[0]['serverAdapter'];
  type Parts = { -readonly [Name in keyof Adapter]?: Parameters<Adapter[Name]> };
  const given: Parts = {};
  const keep =
    <Name extends keyof Adapter>(name: Name) =>
    (...values: Parameters<Adapter[Name]>): Adapter => {
      Object.assign(given, { [name]: values });
      return serverAdapter;
    };
  const serverAdapter: Adapter = {
    setQueues: keep('setQueues'),
    setViewsPath: keep('setViewsPath'),
    setStaticPath: keep('setStaticPath'),
    setEntryRoute: keep('setEntryRoute'),
    setErrorHandler: keep('setErrorHandler'),
    setApiRoutes: keep('setApiRoutes'),
    setUIConfig: keep('setUIConfig'),
  };
  const { replaceQueues } = createBullBoard({
    queues: [],
    serverAdapter,
    options: { uiConfig: { boardTitle: 'Nereid jobs' } },
  });
  const { setQueues, setViewsPath, setStaticPath, setEntryRoute, setErrorHandler, setApiRoutes, setUIConfig } =
    given as Required<Parts>;
  const [uiConfig] = setUIConfig;
  const template = await readFile(join(setViewsPath[0], 'index.ejs'), 'utf8');
  const pages = [setEntryRoute[0].route].flat().map((route) => compiled(route).pattern);

  const routes = setApiRoutes[0].flatMap(({ method, route, handler }) =>
    [route].flat().map((path): BoardRoute => {
      const methods = [method].flat().map((each) => each.toUpperCase());
      const handle: BoardRoute['handle'] = async (request, params) => {
        const { query, headers } = request;
        const body = (request.body ?? {}) as Record<string, unknown>;
        const asked = { queues: setQueues[0], uiConfig, query, params, body, headers };
        const answer = await Promise.resolve(handler(asked)).catch((error: Error) => setErrorHandler[0](error));
        return { status: answer.status ?? 200, type: JSON_TYPE, body: JSON.stringify(answer.body) };
      };
      return { methods, ...compiled(path), handle };
    }),
  );

  return {
    routes,
    page: (base) => rendered(template, setEntryRoute[0].handler({ basePath: base, uiConfig }).params),
    staticFolder: setStaticPath[1],
    isPage: (path) => pages.some((pattern) => pattern.test(path)),
    show: (queues) => replaceQueues(queues.map(({ queue }) => new BullMQAdapter(queue, { readOnlyMode }))),
  };
}

/** `/queue/:name` as an expression, and the names in it. */
function compiled(route: string): { readonly pattern: RegExp; readonly names: readonly string[] } {
  const names: string[] = [];
  const text = route.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&').replaceAll(/:(\w+)/g, (_match, name: string) => {
    names.push(name);
    return '([^/]+)';
  });
  return { pattern: new RegExp(`^${text}$`), names };
}

/** Its templates hold names alone: `<%= %>` escaped, `<%- %>` JSON inside a script. */
function rendered(template: string, values: Readonly<Record<string, string>>): string {
  return template
    .replaceAll(FOREIGN_LINK, '')
    .replaceAll(/<%=\s*(\w+)\s*%>/g, (_match, name: string) => escaped(values[name] ?? ''))
    .replaceAll(/<%-\s*(\w+)\s*%>/g, (_match, name: string) => (values[name] ?? '').replaceAll('<', '\\u003c'));
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;');
}

function unescaped(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

async function staticFile(folder: string, path: string): Promise<BoardAnswer> {
  const file = normalize(join(folder, unescaped(path)));
  const type = TYPES[extname(file)];
  if (type === undefined || !file.startsWith(folder + sep) || file.includes('\0')) return NOT_FOUND;
  try {
    return { status: 200, type, body: await readFile(file) };
  } catch {
    return NOT_FOUND;
  }
}
