"""What is wrong with a training run, from the folder it left: `stoker doctor RUN_FOLDER`."""

from stoker.doctor.runs.diagnose import RunDiagnosis, diagnose_run, record_findings

__all__ = ["RunDiagnosis", "diagnose_run", "record_findings"]
