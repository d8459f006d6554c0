import { directoryContract } from './directory-contract.ts';
import { createLocalDirectory } from './local-directory.ts';

directoryContract('local', () => createLocalDirectory());
