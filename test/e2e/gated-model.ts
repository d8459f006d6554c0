import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type JavaScriptOptions, linesIn, type ModelFolder } from './model-folder.ts';

/** A model that keeps each request until it is opened, or, unless it is deaf, until the request is cancelled. */
export interface GatedModel {
  readonly name: string;
  /** The values of the requests that it was given, in their order. */
  begun(): readonly number[];
  /** The values of those whose signal was aborted while it had them. */
  aborted(): readonly number[];
  /** Lets all requests go, also later ones. */
  open(): void;
}

/** Adds one to the folder; it gives its input VALUE back. */
export function addGated(
  folder: ModelFolder,
  name: string,
  {
    deaf = false,
    config = '',
    ...options
  }: JavaScriptOptions & { readonly deaf?: boolean; readonly config?: string } = {},
): GatedModel {
  const file = (kind: string) => join(folder.path, `${name}.${kind}`);
  const values = (kind: string) => linesIn(file(kind)).map(Number);
  folder.addJavaScript(
    name,
    `import { appendFileSync, existsSync } from 'node:fs';
     import { setTimeout as delay } from 'node:timers/promises';
     async function answer({ inputs, signal }) {
       const VALUE = inputs.get('VALUE');
       appendFileSync(${JSON.stringify(file('begun'))}, VALUE.data[0] + '\\n');
       while (${deaf ? '' : '!signal.aborted && '}!existsSync(${JSON.stringify(file('open'))})) await delay(5);
       if (signal.aborted) appendFileSync(${JSON.stringify(file('aborted'))}, VALUE.data[0] + '\\n');
       return { outputs: { VALUE } };
     }
     export const execute = (requests) => Promise.all(requests.map(answer));`,
    config,
    options,
  );
  return {
    name,
    begun: () => values('begun'),
    aborted: () => values('aborted'),
    open: () => writeFileSync(file('open'), ''),
  };
}
