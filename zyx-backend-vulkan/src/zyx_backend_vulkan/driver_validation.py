"""Foreign functions: the validation layer, which looks at every call and says what is wrong with it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from zyx.errors import InitializationError
from zyx_backend_vulkan.driver import NULL, check, ffi, lib, listed, struct

if TYPE_CHECKING:
    from zyx_backend_vulkan.driver import Native

logger: Final = logging.getLogger("zyx.vulkan")

LAYER: Final = "VK_LAYER_KHRONOS_validation"
EXTENSION: Final = "VK_EXT_debug_utils"

#: VkDebugUtilsMessageSeverityFlagBitsEXT and VkDebugUtilsMessageTypeFlagBitsEXT: warnings and errors, on everything.
_WARNING: Final = 0x100
_ERROR: Final = 0x1000
_ALL_TYPES: Final = 7

#: What the layer says of itself: that it lost count of a timeline which one thread waits for while another submits, and
#: that this is most likely its own mistake (https://github.com/KhronosGroup/Vulkan-ValidationLayers/issues/4968).
_OF_THE_LAYER: Final = frozenset({"UNASSIGNED-VkSemaphore-state-timeout"})


def check_layer() -> None:
    """Raise `InitializationError` if the layer is not installed."""
    layers = listed("VkLayerProperties", lib.vkEnumerateInstanceLayerProperties)
    if LAYER not in {ffi.string(layer.layerName).decode() for layer in layers}:
        raise InitializationError(
            f"backends.vulkan.validation is set, and Vulkan's loader finds no {LAYER}. Install it (on Debian, apt "
            "install vulkan-validationlayers), name its folder in VK_LAYER_PATH, or leave the setting out"
        )


class Messages:
    """What the layer has to say of one instance.

    Attributes:
        texts: Warnings and errors, as they came. They are logged as well. What the layer says of its own state is
            logged for debugging alone.
    """

    def __init__(self) -> None:
        self.texts: list[str] = []
        # Held as long as the layer may call it.
        self._callback: Final = ffi.callback("PFN_vkDebugUtilsMessengerCallbackEXT", self._take)
        self.info: Final = struct(
            "VkDebugUtilsMessengerCreateInfoEXT",
            messageSeverity=_WARNING | _ERROR,
            messageType=_ALL_TYPES,
            pfnUserCallback=self._callback,
        )

    def _take(self, severity: int, _types: int, data: Native, _user: object) -> int:
        text = ffi.string(data.pMessage).decode(errors="replace")
        if data.pMessageIdName != NULL and ffi.string(data.pMessageIdName).decode() in _OF_THE_LAYER:
            logger.debug("validation, of itself: %s", text)
            return 0
        self.texts.append(text)
        logger.log(logging.ERROR if severity >= _ERROR else logging.WARNING, "validation: %s", text)
        return 0  # the call goes on

    def register(self, instance: Native) -> Native:
        """Listen to an instance, and return what `unregister` takes."""
        create = _function(instance, "vkCreateDebugUtilsMessengerEXT")
        place = ffi.new("VkDebugUtilsMessengerEXT *")
        check(create(instance, self.info, NULL, place), "vkCreateDebugUtilsMessengerEXT")
        return place[0]

    def unregister(self, instance: Native, messenger: Native) -> None:
        """Listen no longer."""
        _function(instance, "vkDestroyDebugUtilsMessengerEXT")(instance, messenger, NULL)


def _function(instance: Native, name: str) -> Native:
    return ffi.cast(f"PFN_{name}", lib.vkGetInstanceProcAddr(instance, ffi.new("char[]", name.encode())))
