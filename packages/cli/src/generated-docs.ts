import { flagsMarkdown, limitsMarkdown } from '@nereid/config';
import { errorTableMarkdown } from '@nereid/protocol';
import { EXIT_MEANINGS } from './exit-code.ts';

function exitCodesMarkdown(): string {
  const rows = EXIT_MEANINGS.map(([status, meaning]) => `| ${status} | ${meaning} |`);
  return ['## Exit codes', '', '| code | meaning |', '| ---: | --- |', ...rows, ''].join('\n');
}

const ERRORS_HEAD = `# Errors

Every error has one of these codes. Triton's routes answer \`{"error": text}\` with the code, and the field at fault
where there is one, in the header \`Nereid-Error: CODE; field=…\`. This page is generated from
\`packages/protocol/src/error.ts\`.`;

/** The pages of docs/ that are generated from the code: file name to content. */
export function generatedDocs(): Readonly<Record<string, string>> {
  return {
    'errors.md': `${ERRORS_HEAD}\n\n${errorTableMarkdown().trimEnd()}\n`,
    'flags.md': `${flagsMarkdown()}\n${exitCodesMarkdown()}`,
    'limits.md': limitsMarkdown(),
  };
}
