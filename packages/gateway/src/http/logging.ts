import { type ErrorInfo, errorInfo, type JsonMember, NereidError } from '@nereid/protocol';
import type { LogSettings } from '@nereid/runtime';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { LOG_FILE_REFUSED, LOG_VERBOSE_MAX, type LogChanges, type ShownLogSettings } from '../log-settings.ts';
import { sendJson } from './errors.ts';
import { type Members, refuse, withMembers } from './json-body.ts';
import { flagValue, textValue, unsignedValue } from './json-member.ts';
import type { ServicesContext } from './services-context.ts';

/** GET /v2/logging */
export function logging({ services }: ServicesContext, reply: FastifyReply): void {
  sendLogSettings(reply, services.logSettings.current());
}

/** POST /v2/logging: settings before one that is wrong hold all the same, as in Triton (HandleLogging). */
export function setLogging(context: ServicesContext, request: FastifyRequest, reply: FastifyReply): void {
  withMembers(context, request, reply, false, async (members) => {
    const { changes, error } = readLogChanges(members);
    const changed = await context.services.logSettings.change(changes);
    if (!changed.ok) refuse(context, reply, changed.error);
    else if (error !== undefined) refuse(context, reply, error);
    else sendLogSettings(reply, changed.value);
  });
}

function sendLogSettings(reply: FastifyReply, settings: ShownLogSettings): void {
  const { file, info, warning, error, verboseLevel, format } = settings;
  sendJson(
    reply,
    JSON.stringify({
      log_file: file,
      log_info: info,
      log_warning: warning,
      log_error: error,
      log_verbose_level: verboseLevel,
      log_format: format,
    }),
  );
}

type Writable = { -readonly [Name in keyof LogSettings]?: LogSettings[Name] };

/** The settings up to the first that is wrong, in Triton's order, and what is wrong with that. Null leaves one as it is. */
function readLogChanges(members: Members): { readonly changes: LogChanges; readonly error: ErrorInfo | undefined } {
  const changes: Writable = {};
  try {
    readInto(changes, members);
    return { changes, error: undefined };
  } catch (thrown) {
    if (!(thrown instanceof NereidError)) throw thrown;
    return { changes, error: errorInfo(thrown) };
  }
}

function readInto(changes: Writable, members: Members): void {
  const given = (name: string) => members.get(name) ?? undefined;
  if (given('log_file') !== undefined) throw new NereidError('UNSUPPORTED', LOG_FILE_REFUSED, { field: 'log_file' });
  for (const [name, key] of FLAGS) {
    const value = given(name);
    if (value !== undefined) changes[key] = flagValue(value, name);
  }
  const level = given('log_verbose_level');
  if (level !== undefined) changes.verboseLevel = verboseLevel(level);
  const givenFormat = given('log_format');
  if (givenFormat === undefined) return;
  const format = textValue(givenFormat, 'log_format');
  if (format !== 'default' && format !== 'ISO8601') {
    throw new NereidError('UNAVAILABLE', `invalid argument for --log_format, got: ${format}`, { field: 'log_format' });
  }
  changes.format = format;
}

const FLAGS = [
  ['log_info', 'info'],
  ['log_warning', 'warning'],
  ['log_error', 'error'],
] as const;

function verboseLevel(value: JsonMember): number {
  const level = unsignedValue(value, 'log_verbose_level');
  if (level <= LOG_VERBOSE_MAX) return Number(level);
  const message = `log_verbose_level must be from 0 to ${LOG_VERBOSE_MAX}, got ${level}`;
  throw new NereidError('INVALID_ARG', message, { field: 'log_verbose_level' });
}
