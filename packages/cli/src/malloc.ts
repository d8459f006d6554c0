import type { MallocName } from '@nereid/config';

interface Library {
  /** What `bin/nereid` looks for. */
  readonly file: string;
  /** What the name of any of its builds begins with. */
  readonly begins: string;
  /** The package that has it. */
  readonly install: string;
}

const LIBRARIES: Readonly<Record<Exclude<MallocName, 'default'>, Library>> = {
  jemalloc: {
    file: 'libjemalloc.so.2',
    begins: '/libjemalloc',
    install: 'libjemalloc2 (Debian, Ubuntu) or jemalloc (Fedora, RHEL)',
  },
  tcmalloc: {
    file: 'libtcmalloc_minimal.so.4',
    begins: '/libtcmalloc',
    install: 'libtcmalloc-minimal4 (Debian, Ubuntu) or gperftools-libs (Fedora, RHEL)',
  },
};

/**
 * Why a process does not have the malloc that `--malloc` asks for, in words; undefined where it has it. `mapped` reads
 * what is mapped into it (Linux' /proc/self/maps); it throws where that is not to be had.
 */
export function mallocProblem(name: MallocName, mapped: () => string): string | undefined {
  if (name === 'default') return undefined;
  const { file, begins, install } = LIBRARIES[name];
  let files: string;
  try {
    files = mapped();
  } catch {
    return `--malloc=${name} needs Linux: leave it out`;
  }
  if (files.includes(begins)) return undefined;
  return `--malloc=${name} needs the library ${file}, which this process does not have: install ${install}, and start it as nereid with the flag or NEREID_MALLOC, or Node.js with LD_PRELOAD=${file}`;
}
