import { isJsonArray, wrongKind } from '@nereid/protocol';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Gateway } from '../gateway.ts';
import { readTraceChange } from '../trace-change.ts';
import type { TraceState } from '../trace-scopes.ts';
import { shownTraceSettings, traceModelRefusal } from '../trace-settings.ts';
import { sendJson } from './errors.ts';
import { type Members, refuse, withMembers } from './json-body.ts';
import { textValue } from './json-member.ts';
import { modelOf } from './model-path.ts';
import type { ServicesContext } from './services-context.ts';

interface Context extends ServicesContext {
  readonly gateway: Pick<Gateway, 'modelReady'>;
}

/** GET /v2[/models/{m}]/trace/setting */
export function traceSetting(context: Context, request: FastifyRequest, reply: FastifyReply): void {
  const model = servable(context, request, reply);
  if (model !== undefined) sendTraceSettings(reply, context.services.traceSettings.current(model));
}

/** POST of the same: all settings, or where one is wrong none. */
export function setTraceSetting(context: Context, request: FastifyRequest, reply: FastifyReply): void {
  const model = servable(context, request, reply);
  if (model === undefined) return;
  withMembers(context, request, reply, false, async (members) => {
    const change = readTraceChange(askedOf(members));
    const changed = await context.services.traceSettings.change(model, change);
    if (changed.ok) sendTraceSettings(reply, changed.value);
    else refuse(context, reply, changed.error);
  });
}

/** The model of the path, '' for all; undefined where it is answered that there is none. */
function servable(context: Context, request: FastifyRequest, reply: FastifyReply): string | undefined {
  const { model } = request.params as { readonly model?: string };
  if (model === undefined) return '';
  const { name } = modelOf(request);
  const error = traceModelRefusal(context.gateway, name);
  if (error === undefined) return name;
  refuse(context, reply, error);
  return undefined;
}

function askedOf(members: Members) {
  return {
    has: (name: string) => members.has(name),
    levels(name: string) {
      const value = members.get(name);
      if (value === undefined || value === null) return value;
      if (!isJsonArray(value)) throw wrongKind(name, name, 'JSON non-array as array');
      return value.map((level) => textValue(level, name));
    },
    text(name: string) {
      const value = members.get(name);
      return value === undefined || value === null ? value : textValue(value, name);
    },
  };
}

function sendTraceSettings(reply: FastifyReply, state: TraceState): void {
  const shown = shownTraceSettings(state).map(([name, values]) => [
    name,
    name === 'trace_level' ? values : values.join(','),
  ]);
  sendJson(reply, JSON.stringify(Object.fromEntries(shown)));
}
