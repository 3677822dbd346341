<?php
return [
];
