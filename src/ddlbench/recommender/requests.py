"""What the API is asked, as the OpenAPI description shows it."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from ddlbench.recommender.inquiry import Inquiry, Name, Training
from ddlbench.recommender.uploads import NAME


class RecommendBody(Inquiry):
    """An inquiry, and by which table it is answered."""

    table: Annotated[Name | None, Field(description="none: `here`, or the only one")] = None


class PredictBody(Training):
    """A training, and by which table its time is predicted."""

    table: Annotated[Name | None, Field(description="none: `here`, or the only one")] = None


class Filter(BaseModel):
    """Which measurements to show."""

    model_config = ConfigDict(extra="forbid")

    table: Name | None = None
    model: Name | None = None
    framework: Name | None = None
    strategy: Name | None = None
    workers: Annotated[int | None, Field(ge=1, le=100_000)] = None
    limit: Annotated[int, Field(ge=1, le=1000)] = 100
    offset: Annotated[int, Field(ge=0, le=1_000_000)] = 0


class ImportQuery(BaseModel):
    """How a table is taken over, as `ddlbench import` does."""

    model_config = ConfigDict(extra="forbid")

    name: Annotated[str, Field(pattern=f"^{NAME}$", description="that the table gets here")]
    column: Annotated[list[str], Field(max_length=20, description="OURS=NAME")] = []
    header: Annotated[str | None, Field(max_length=4000, description="NAME,NAME,... of a table without")] = (
        None
    )
    images: Annotated[float | None, Field(ge=1, le=1e12, allow_inf_nan=False, description="of an epoch")] = (
        None
    )
    leave_out_bad_rows: Annotated[bool, Field(description="else nothing is imported if there are any")] = (
        False
    )
