// node test/bench/rivals/install.mjs: the Python servers that the bench compares with, into .cache/bench-venv.
import { installPythonRivals } from './python-rivals.mjs';

const hindrance = await installPythonRivals();
console.log(hindrance === undefined ? 'LitServe and mosec can be run' : `not installed: ${hindrance}`);
process.exitCode = hindrance === undefined ? 0 : 1;
