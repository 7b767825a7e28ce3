"""The gRPC contract can be generated for other languages as it is: it names a package for each."""

from __future__ import annotations

from upwell.v1 import upwell_pb2

OPTIONS = upwell_pb2.DESCRIPTOR.GetOptions()


def test_go_has_an_import_path_and_a_package() -> None:
    path, _, package = OPTIONS.go_package.partition(";")
    assert "/" in path, "protoc-gen-go refuses a path without a dot or a slash"
    assert package.isidentifier()


def test_each_other_language_has_a_package_in_its_own_spelling() -> None:
    assert (OPTIONS.java_package, OPTIONS.java_multiple_files) == ("upwell.v1", True)
    assert OPTIONS.csharp_namespace == "Upwell.V1"
    assert OPTIONS.php_namespace == "Upwell\\V1"
    assert OPTIONS.ruby_package == "Upwell::V1"
    assert OPTIONS.java_outer_classname not in upwell_pb2.DESCRIPTOR.message_types_by_name
