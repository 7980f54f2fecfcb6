"""All sentences on a job that hangs or has died, one function for each.

`verdict_text` has the verdict and its advice, `wait_text` the ranks that wait, `end_text` the ranks
that have ended, `job_state` the state of the job and its pending collectives, and `picture_text`
the texts in pictures.
"""
