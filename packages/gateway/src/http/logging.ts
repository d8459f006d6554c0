import { type JsonMember, NereidError } from '@nereid/protocol';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { type LogAsked, readLogChange } from '../log-change.ts';
import { LOG_VERBOSE_MAX, type ShownLogSettings } from '../log-settings.ts';
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
    const { changes, error } = readLogChange(askedOf(members));
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

/** Null leaves a setting as it is. */
function askedOf(members: Members): LogAsked {
  const given = (name: string) => members.get(name) ?? undefined;
  return {
    has: (name) => given(name) !== undefined,
    flag(name) {
      const value = given(name);
      return value === undefined ? undefined : flagValue(value, name);
    },
    verboseLevel() {
      const value = given('log_verbose_level');
      return value === undefined ? undefined : verboseLevel(value);
    },
    format() {
      const value = given('log_format');
      if (value === undefined) return undefined;
      const format = textValue(value, 'log_format');
      if (format === 'default' || format === 'ISO8601') return format;
      throw new NereidError('UNAVAILABLE', `invalid argument for --log_format, got: ${format}`, {
        field: 'log_format',
      });
    },
  };
}

function verboseLevel(value: JsonMember): number {
  const level = unsignedValue(value, 'log_verbose_level');
  if (level <= LOG_VERBOSE_MAX) return Number(level);
  const message = `log_verbose_level must be from 0 to ${LOG_VERBOSE_MAX}, got ${level}`;
  throw new NereidError('INVALID_ARG', message, { field: 'log_verbose_level' });
}
